// Plural ending of a counted noun.
#pragma once

#include <cstdint>

namespace llmc {

/// "1 file", "2 files": fmt::format("{} file{}", n, plural(n)).
constexpr const char* plural(std::int64_t n) { return n == 1 ? "" : "s"; }

}  // namespace llmc
