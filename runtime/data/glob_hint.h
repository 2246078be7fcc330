// Suggests existing files for a pattern that matches nothing.
#pragma once

#include <filesystem>
#include <string>

namespace llmc {

/// For a pattern without matches: the likely meaning and the pattern to write, such as "; 'data' is a folder: write
/// 'data/*.bin', which is 3 files". Empty if nothing similar exists.
std::string glob_hint(const std::string& pattern);

/// For a tokenizer's path that is a folder: "; 'data' is a folder: write 'data/tokenizer.model'", or that it has none.
/// Empty if it is not a folder.
std::string tokenizer_hint(const std::filesystem::path& path);

}  // namespace llmc
