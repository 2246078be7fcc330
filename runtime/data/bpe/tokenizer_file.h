// Reads the parts of a Hugging Face tokenizer.json that encoding and decoding need.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace llmc {

/// An entry of added_tokens. Flags that the file leaves out are those of the package `tokenizers`.
struct AddedToken {
  std::string content;
  std::int64_t id = -1;
  bool special = false, single_word = false, lstrip = false, rstrip = false;
  bool normalized = true;  // matched in normalised text
};

struct TokenizerFile {
  std::vector<std::pair<std::string, std::int64_t>> vocabulary;  // model.vocab
  std::vector<std::pair<std::string, std::string>> merges;       // by rank
  bool odd_merges = false;                                       // one of model.merges is no pair of tokens
  nlohmann::json model;                                          // simple values in model, such as its type
  std::vector<AddedToken> added;
  nlohmann::json normalizer, pre_tokenizer, decoder;
};

/// Reads a file without checking that its parts fit together. Templates (post_processor) are skipped: they add tokens
/// at the ends of a text, which training data has none of. Throws Failure(data) naming `name`: invalid JSON, duplicate
/// keys, more than 2^20 tokens, a token of more than 4,096 bytes, too many values, a part of an unexpected type.
TokenizerFile read_tokenizer_file(std::string_view json, const std::string& name);

}  // namespace llmc
