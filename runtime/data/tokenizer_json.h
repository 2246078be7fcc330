// Reads the vocabulary of a Hugging Face tokenizer.json: the decoded bytes of each token.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace llmc {

struct JsonVocabulary {
  std::vector<std::string> bytes_of;  // by id: the bytes of each token; empty for special tokens and unused ids
  std::vector<std::string> names;     // by id: its name in the file
  std::int32_t separator = -1;        // token that ends a document; -1: unknown

  /// One more than the largest id that data can have: no text becomes a special token, and released files end with some
  /// that have no row in the model.
  std::int32_t tokens_of_data() const;
};

/// Returns whether a file starts with a brace: a tokenizer.json does, a sentencepiece model never.
bool looks_like_json(std::string_view file);

struct TokenizerFile;

/// The token that ends a document, as files in the folder of a tokenizer.json name it.
struct NamedSeparator {
  std::int32_t id = -1;  // separator_id of dataset.json; -1: none
  std::string name;      // eos_token of tokenizer_config.json; empty: none
};

/// `tokenizer`: a file, or the folder with it. A dataset.json that cannot be used is ignored. Throws Failure(data) for
/// a tokenizer_config.json that cannot be read.
NamedSeparator separator_next_to(const std::filesystem::path& tokenizer);

/// Reason why such a tokenizer has no separator, as a clause. Throws Failure(data) as separator_next_to().
std::string why_no_separator(const std::filesystem::path& tokenizer);

/// Reads BPE with a ByteLevel decoder (GPT-2, Llama 3, Qwen 3), or with byte fallback and a space marker (Llama 2,
/// Mistral). Decodes like the file's decoder, without special tokens. Blanks that it strips at the start of a whole
/// text are kept, because decoded segments follow other text. The separator is the one named in `separator`; if none
/// is, the first existing special token of <|end_of_text|>, <|endoftext|>, </s>, <eos> and <｜end▁of▁sentence｜>.
/// Throws Failure(data) naming `name`: invalid JSON, duplicate keys, another kind of model or decoder, more than 2^20
/// tokens, a token of more than 4,096 bytes, two tokens with one id, malformed byte tokens.
JsonVocabulary parse_tokenizer_json(std::string_view json, const std::string& name,
                                    const NamedSeparator& separator = {});

/// Same, of a file that is already parsed.
JsonVocabulary vocabulary_of(const TokenizerFile& file, const std::string& name, const NamedSeparator& separator);

}  // namespace llmc
