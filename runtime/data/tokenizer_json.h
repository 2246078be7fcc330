// The vocabulary of a Hugging Face tokenizer.json: what each token decodes to.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

struct JsonVocabulary {
  std::vector<std::string> bytes_of;  // by id: the bytes of each token; of special tokens and unused ids nothing
  std::vector<std::string> names;     // by id: what the file calls it
  std::int32_t separator = -1;        // the token that ends a document; -1: none is known
};

/// Whether a file's bytes are meant as a tokenizer.json: it begins with a brace, as no sentencepiece model does.
bool looks_like_json(std::string_view file);

/// Reads BPE with a ByteLevel decoder (GPT-2, Llama 3, Qwen 3), or with byte fallback and a stand-in for blanks (Llama
/// 2, Mistral). Decoding is that of the file's decoder, special tokens skipped, but for blanks that it strips at the
/// beginning of a whole text, since what is decoded here goes on with another. The separator is the special token
/// <|end_of_text|>, <|endoftext|>, </s> or <｜end▁of▁sentence｜>, the first of these that is there. Throws
/// Failure(data) that names `name`: no JSON, keys that stand twice, another kind of model or decoder, more than 2^20
/// tokens or one of more than 4,096 bytes, an id that two tokens have, byte tokens that are none.
JsonVocabulary parse_tokenizer_json(std::string_view json, const std::string& name);

}  // namespace llmc
