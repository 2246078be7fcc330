// Reads an existing tokenizer, with which another data set is made.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace llmc::data {

/// Returns the bytes of a tokenizer: the file `path`, or in the folder `path`, such as a data set, its tokenizer.model,
/// else its tokenizer.json. Does not validate them; the constructor of Tokenizer does. Throws Failure(Exit::data).
std::string read_tokenizer(const std::filesystem::path& path);

/// Returns XXH3-64 in 16 hex digits.
std::string checksum_of(std::string_view bytes);

}  // namespace llmc::data
