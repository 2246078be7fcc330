// Whether a model's vocabulary is that of the text it is to be trained on.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace llmc {

/// One sentence where the model's vocabulary is not the tokenizer's; empty where it is, or where no tokenizer can be
/// read. The tokenizer is `tokenizer`, or where that is empty the tokenizer.model that `llmc data build` leaves beside
/// `shards`, a path or pattern.
std::string vocabulary_note(std::int64_t vocab_size, const std::filesystem::path& tokenizer,
                            const std::filesystem::path& shards);

}  // namespace llmc
