// Splits text into the words within which byte-level BPE merges.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace llmc {

/// The regular expressions of the supported pre-tokenizers. They are matched by hand, in one pass: each takes every
/// character of a text, and a general matcher would be slower and need limits for long words.
enum class WordRule {
  whole,    // no splitting
  gpt2,     // GPT-2, GPT-NeoX, OLMo 1: ByteLevel with its own expression
  digits3,  // tiktoken's cl100k_base: Llama 3, OLMo 2, SmolLM 3; up to three digits a word
  digits1,  // Qwen 2, 2.5 and 3: a digit a word
};

/// Returns the rule of an expression in a tokenizer.json, compared as text; nothing for another one.
std::optional<WordRule> word_rule(std::string_view expression);

/// Returns the bytes of the first word of `text`, which is not empty and valid UTF-8.
std::size_t word_length(std::string_view text, WordRule rule);

}  // namespace llmc
