// What there is in place of the files that a pattern does not match.
#pragma once

#include <string>

namespace llmc {

/// For a pattern that glob_files() finds nothing for: what was meant, as far as that shows, and what to write for it.
/// "; 'data' is a folder: write 'data/*.bin', which is 3 files". Empty where nothing is near.
std::string glob_hint(const std::string& pattern);

}  // namespace llmc
