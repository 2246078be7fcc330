// When something that comes every so many steps is due.
#pragma once

#include <cstdint>

namespace llmc {

/// After `step`, of a run up to step `stop`: every multiple of `every`, and the last step. 0: never.
constexpr bool due(std::int64_t every, std::int64_t step, std::int64_t stop) {
  return every > 0 && (step == stop || step % every == 0);
}

}  // namespace llmc
