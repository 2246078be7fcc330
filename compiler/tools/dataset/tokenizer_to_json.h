// Writes a trained sentencepiece model as a tokenizer.json of Hugging Face.
#pragma once

#include <string>
#include <string_view>

namespace llmc::data {

/// Returns the text of a tokenizer.json that gives the ids of `model`: a BPE model with byte fallback that loses no
/// byte (train_tokenizer.h). Each piece becomes the merges of all pairs of pieces that it consists of, by falling
/// score. The format cannot tell U+2581, the space marker, from a blank: only text with that character has other ids.
/// Throws Failure(data) if sentencepiece refuses the model.
std::string tokenizer_to_json(std::string_view model);

inline constexpr char kTokenizerJson[] = "tokenizer.json";

}  // namespace llmc::data
