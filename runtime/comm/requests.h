// Decides which signals belong to one request, for `trainer --ranks N` and for its ranks.
#pragma once

#include <chrono>

namespace llmc {

/// A scheduler signals every process of a job, and a launcher passes signals on, so a rank may get one request several
/// times. Another request to stop, or to save, within this time of the first is the same one.
inline constexpr std::chrono::milliseconds kSameRequest{1000};

/// Value that `trainer --ranks N` sends with a signal (sigqueue), so that a rank can tell a late forwarded request from
/// a new one without a clock.
enum class PassedOn : int {
  first = 1,  // this rank may have it already
  again = 2,  // requested a second time: end at once
};

}  // namespace llmc
