#include "compiler/tools/dataset/time_left.h"

#include <fmt/format.h>

#include "text/console.h"

namespace llmc::data {

std::string time_left(double seconds, std::int64_t done, std::int64_t total) {
  constexpr double kFirst = 2;
  if (seconds < kFirst || done <= 0 || total < done) return "";
  return fmt::format(", {} left",
                     format_duration(seconds * static_cast<double>(total - done) / static_cast<double>(done)));
}

}  // namespace llmc::data
