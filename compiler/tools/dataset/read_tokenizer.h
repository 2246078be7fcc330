// Reads an existing tokenizer, with which another data set is made.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

namespace llmc::data {

/// Returns whether a data set can be made with the file: it encodes, and has a token to end a document.
bool builds_data(const std::filesystem::path& file);

/// Returns the tokenizer file that `path` names: itself, or in a folder, such as a data set, the tokenizer.model, else
/// the tokenizer.json. If both exist, the first one with builds_data(). Throws Failure(Exit::data) if there is none.
std::filesystem::path tokenizer_file(const std::filesystem::path& path);

/// Returns the bytes of a tokenizer file. Does not validate them; the constructor of Tokenizer does. Throws
/// Failure(Exit::data).
std::string read_tokenizer(const std::filesystem::path& file);

/// Returns XXH3-64 in 16 hex digits.
std::string checksum_of(std::string_view bytes);

}  // namespace llmc::data
