// A tokenizer that is there already, for a data set of the same tokens.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace llmc::data {

/// The bytes of a sentencepiece model: of the file `path`, or of the tokenizer.model in the folder `path`, such as that
/// of another data set. What is in them is the Tokenizer's to check. Throws Failure(Exit::data).
std::string read_tokenizer(const std::filesystem::path& path);

/// XXH3-64 in 16 hex digits.
std::string checksum_of(std::string_view bytes);

}  // namespace llmc::data
