// Rank 0's judgement of all ranks' collectives: whether two are in different ones, or one lasts too long.
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

/// What a heartbeat says of a rank.
struct RankReport {
  std::int64_t step = -1;  // -1: before the first
  std::string phase;
  CollectiveReport collectives;
};

/// Puts all but the step into a heartbeat, and takes it out again. Throws WireError.
void write_report(BodyWriter& body, const RankReport& report);
RankReport read_report(BodyReader& body, std::int64_t step);

class CollectiveJudge {
 public:
  /// `limit`: of one collective, where 100 steps are not longer.
  CollectiveJudge(int world_size, std::chrono::milliseconds limit)
      : ranks_(static_cast<std::size_t>(world_size)), limit_(limit) {}

  void hear(int rank, RankReport report) { ranks_[static_cast<std::size_t>(rank)].report = std::move(report); }

  struct Verdict {
    std::string what;   // one sentence
    std::string table;  // a line for the ranks that are at the same place: rank, step, phase, collective
  };
  /// Whether two ranks were in different collectives of the same number.
  std::optional<Verdict> different() const;
  /// The same, or whether one lasts too long. To be called once a beat. Time in which the judge itself was stopped
  /// counts as a beat.
  std::optional<Verdict> judge(MonotonicTime now, std::chrono::milliseconds beat);

 private:
  struct Rank {
    RankReport report;
    std::uint64_t waits = 0;              // as last judged
    std::chrono::milliseconds waited{0};  // in the wait that it is in
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
