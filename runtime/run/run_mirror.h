// checkpoint.mirror of one run: its lock, the mark by which it belongs to that run, and which checkpoints it gets.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "run/folder_lock.h"

namespace llmc {

/// Holds the mirror's lock while it lives. MIRROR/state/mirror_of names the run that it belongs to, by its id and its
/// folder.
class RunMirror {
 public:
  /// A start of a run: its folder and id, and the checkpoint that it goes on from, of `step`; empty and 0: from the
  /// beginning.
  struct Start {
    std::filesystem::path run;
    std::string id;
    std::int64_t step = 0;
    std::filesystem::path checkpoint = {};
  };

  /// Makes the mirror this run's. One of another run is refused; but a start that goes on from the mirror takes it over
  /// where that run's folder is gone. A mirror without a mark, which an older llmc wrote, is this run's where its
  /// checkpoints are. `interval`: steps between two copies; 0: every checkpoint is copied. Throws Failure(checkpoint)
  /// with what to write; also where the mirror cannot be written, is used now, or has checkpoints from after the start.
  RunMirror(const std::filesystem::path& path, const Start& start, std::int64_t interval, const Log& log);

  /// Brings the mirror up to the run's newest checkpoint, of `step`: copies it where it is due, and removes what
  /// retention does not keep. Done twice, it changes nothing. Throws Failure(checkpoint).
  void follow(std::int64_t step, const Retention& retention, const Log& log) const;

  /// Removes the checkpoints of steps above `step`, which the run has left. Throws Failure(checkpoint).
  void remove_after(std::int64_t step) const;

 private:
  bool due(std::int64_t step) const;

  std::filesystem::path path_, run_;
  std::int64_t interval_;
  FolderLock lock_;
};

/// Steps from one copy to the next, for `every` and `mirror_every` of a spec; 0: every checkpoint is copied.
std::int64_t mirror_interval(std::int64_t every, std::int64_t mirror_every);

}  // namespace llmc
