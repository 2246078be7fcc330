// Estimates the rest of a stage from its speed so far.
#pragma once

#include <cstdint>
#include <string>

namespace llmc::data {

/// Returns ", 2m 05s left" for `done` of `total` bytes after so many seconds of the stage; empty in its first two
/// seconds, which say little, or if the total is not known.
std::string time_left(double seconds, std::int64_t done, std::int64_t total);

}  // namespace llmc::data
