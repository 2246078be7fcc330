// Suggests existing files for a pattern that matches nothing.
#pragma once

#include <string>

namespace llmc {

/// For a pattern without matches: the likely meaning and the pattern to write, such as "; 'data' is a folder: write
/// 'data/*.bin', which is 3 files". Empty if nothing similar exists.
std::string glob_hint(const std::string& pattern);

}  // namespace llmc
