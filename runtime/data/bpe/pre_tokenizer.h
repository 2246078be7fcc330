// Pre-tokenizers of a tokenizer.json: how normalised text is split into the words that BPE encodes.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "data/bpe/normalizer.h"
#include "data/bpe/words.h"

namespace llmc {

struct PreTokenizer {
  bool byte_level = false;          // words are bytes, not characters
  WordRule rule = WordRule::whole;  // of byte-level words
  bool prefix_space = false;        // byte-level text gets a blank in front, if it has none
  std::string mark;                 // stands for a blank (Metaspace); else empty
  enum class Prefix { never, first, always } prefix_mark = Prefix::never;  // text gets a mark in front, if it has none
  bool split_at_marks = false;                                             // each mark begins a word
};

/// Reads the file's pre_tokenizer: null, ByteLevel, a Split by one of the expressions of WordRule with ByteLevel after
/// it, Metaspace, or a Split at blanks that the normalizer leaves none of (Gemma). Returns its problem for another one;
/// empty if it has none.
std::string read_pre_tokenizer(const nlohmann::json& json, const Normalizer& normalizer, PreTokenizer& read);

}  // namespace llmc
