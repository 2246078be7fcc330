// Checks whether a model's vocabulary matches that of its training text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace llmc {

/// Returns one sentence if the model's vocabulary size differs from the tokenizer's; empty if it matches or no
/// tokenizer can be read. The tokenizer is `tokenizer`, or if that is empty the one that `llmc data build` writes next
/// to `shards`, a path or pattern.
std::string vocabulary_note(std::int64_t vocab_size, const std::filesystem::path& tokenizer,
                            const std::filesystem::path& shards);

}  // namespace llmc
