// A replay whose collectives are numbered each time that they run, also from a graph, where nobody calls them.
#pragma once

#include <functional>
#include <vector>

#include "comm/collective_log.h"
#include "device/replay.h"

namespace llmc {

class NumberedReplay {
 public:
  /// `log`: null where there is one rank.
  NumberedReplay(Device& device, CollectiveLog* log) : replay_(device), log_(log) {}

  /// As Replay::run().
  void run(const std::function<void()>& work) {
    if (!log_) return replay_.run(work);
    bool called = false;
    replay_.run([&] {
      called = true;
      const CollectiveLog::Recording recording(*log_, collectives_);
      work();
    });
    if (called) return;
    for (const Collective& collective : collectives_) log_->add(collective);
  }

 private:
  Replay replay_;
  CollectiveLog* const log_;
  std::vector<Collective> collectives_;  // of the last time that they were called
};

}  // namespace llmc
