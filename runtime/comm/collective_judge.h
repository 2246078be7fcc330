// Finds ranks in different collectives, and collectives that take too long, from the heartbeats that rank 0 receives.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "comm/collective_log.h"
#include "comm/connection.h"
#include "comm/wire.h"

namespace llmc {

/// Content of a heartbeat.
struct RankReport {
  std::int64_t step = -1;  // -1: before the first
  std::string phase;
  CollectiveReport collectives;
};

/// Write all but the step to a heartbeat's body, and read it back. Throw WireError.
void write_report(BodyWriter& body, const RankReport& report);
RankReport read_report(BodyReader& body, std::int64_t step);

class CollectiveJudge {
 public:
  /// `limit`: the longest wait in one collective; the duration of 100 steps if that is longer.
  CollectiveJudge(int world_size, std::chrono::milliseconds limit)
      : ranks_(static_cast<std::size_t>(world_size)), limit_(limit) {}

  void hear(int rank, RankReport report) { ranks_[static_cast<std::size_t>(rank)].report = std::move(report); }

  struct Verdict {
    std::string what;   // one sentence
    std::string table;  // one line for all ranks in the same state: ranks, step, phase, collective
  };
  /// Reports two ranks that are in different collectives with the same number.
  std::optional<Verdict> different() const;
  /// Same, and also reports a collective that takes too long, unless a wait in it is unlimited. Call it once per
  /// heartbeat, every `beat`. Time in which this process itself was stopped counts as one `beat`.
  std::optional<Verdict> judge(MonotonicTime now, std::chrono::milliseconds beat);

 private:
  struct Rank {
    RankReport report;
    std::uint64_t wait_turns = 0;         // at the last check
    std::chrono::milliseconds waited{0};  // in the current wait
  };

  std::chrono::milliseconds longest_allowed() const;
  std::string table() const;
  std::string row(const Rank& rank) const;

  std::vector<Rank> ranks_;
  const std::chrono::milliseconds limit_;
  std::optional<MonotonicTime> judged_;
  std::int64_t first_step_ = -1;  // of rank 0
  std::chrono::milliseconds since_first_{0};
};

}  // namespace llmc
