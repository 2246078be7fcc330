// Checks a sentencepiece model file before the library parses it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

/// Properties that decide whether text survives encoding and decoding.
struct TokenizerModel {
  std::int64_t pieces = 0;
  bool byte_fallback = false;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

/// Parses the protobuf wire format of sentencepiece's ModelProto. Throws Failure(data) naming `name` if it is
/// malformed, has more than 2^20 pieces or a piece of more than 4096 bytes, is no BPE model, or normalises text. The
/// library follows the offsets of a normalisation table unchecked, and normalising would make decoding inexact.
TokenizerModel check_tokenizer_model(std::string_view model, const std::string& name);

}  // namespace llmc
