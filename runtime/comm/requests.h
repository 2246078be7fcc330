// Which signals are one request: the rule of `trainer --ranks N` and of its ranks alike.
#pragma once

#include <chrono>

namespace llmc {

/// A scheduler signals every process of a job, and a launcher passes on what it got: a rank has the same request twice
/// or more often. A request to stop, or to save, that comes so soon after the first is that first one.
inline constexpr std::chrono::milliseconds kSameRequest{1000};

/// What `trainer --ranks N` sends with a signal (sigqueue), so that a rank needs no clock to tell a request that was
/// passed on late from another one.
enum class PassedOn : int {
  first = 1,  // the one that this rank may have already
  again = 2,  // asked again: end at once
};

}  // namespace llmc
