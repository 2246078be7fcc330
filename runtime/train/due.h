// Decides when periodic work is due.
#pragma once

#include <cstdint>

namespace llmc {

/// Due after `step` if it is a multiple of `every` or the last step, `stop`. `every` 0: never.
constexpr bool due(std::int64_t every, std::int64_t step, std::int64_t stop) {
  return every > 0 && (step == stop || step % every == 0);
}

}  // namespace llmc
