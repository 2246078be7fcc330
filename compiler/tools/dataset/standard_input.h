// Copies standard input to a file, because a build reads its text twice.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>

namespace llmc::data {

/// Writes all of the file descriptor to FOLDER/kStandardInputCopy and returns its path. `progress` (bytes so far) may
/// be empty. Throws Failure(Exit::data) if it cannot be read or written.
std::filesystem::path copy_standard_input(int descriptor, const std::filesystem::path& folder,
                                          const std::function<void(std::int64_t bytes)>& progress);

}  // namespace llmc::data
