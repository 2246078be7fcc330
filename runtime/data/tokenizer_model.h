// Checks a sentencepiece model file before the library sees it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace llmc {

/// What decides whether text survives encoding and decoding.
struct TokenizerModel {
  std::int64_t pieces = 0;
  bool byte_fallback = false;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

/// Walks the protobuf wire format of sentencepiece's ModelProto. Throws Failure(Exit::data) naming `name` when it is
/// malformed, holds more than 2^20 pieces or one of more than 4096 bytes, is no BPE model, or normalises text (the
/// library follows the offsets of a normalisation table without checking them, and it makes decoding inexact anyway).
TokenizerModel check_tokenizer_model(std::string_view model, const std::string& name);

}  // namespace llmc
