// Finds the tokenizer that token shards were made with.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "data/tokenizer.h"

namespace llmc {

/// Returns the tokenizer that decodes the shards of a pattern: the one in their folder if dataset.json records its
/// checksum, else `named`, else the tokenizer.model or tokenizer.json in their folder. Null if there is none, or if it
/// cannot be read.
std::shared_ptr<const Tokenizer> tokenizer_of_shards(const std::filesystem::path& pattern,
                                                     std::shared_ptr<const Tokenizer> named);

/// Returns one sentence if dataset.json records another tokenizer for the shards of a pattern than the file `named`;
/// empty if it is the same, or if nothing is recorded.
std::string tokenizer_mismatch(const std::filesystem::path& pattern, const std::filesystem::path& named);

}  // namespace llmc
