// checkpoint.mirror of one run: its lock, the mark that ties it to that run, and the choice of checkpoints to copy.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "checkpoint/checkpoint.h"
#include "run/folder_lock.h"

namespace llmc {

/// Holds the mirror's lock for its lifetime. MIRROR/state/mirror_of records the owning run's id and folder.
class RunMirror {
 public:
  /// Start of a run: its folder and id, and the checkpoint and `step` it resumes from; empty and 0: from the beginning.
  struct Start {
    std::filesystem::path run;
    std::string id;
    std::int64_t step = 0;
    std::filesystem::path checkpoint = {};
  };

  /// Claims the mirror for this run. Refuses another run's mirror, unless this start resumes from the mirror and that
  /// run's folder is gone. A mirror without a mark (older llmc) is claimed if its checkpoints are the run's.
  /// `interval`: steps between two copies; 0: copy every checkpoint. Throws Failure(checkpoint) with advice; also if
  /// the mirror cannot be written, is in use, or has checkpoints later than the start.
  RunMirror(const std::filesystem::path& path, const Start& start, std::int64_t interval, const Log& log);

  /// Copies the run's newest checkpoint, of `step`, if it is due, and applies retention. Idempotent. Throws
  /// Failure(checkpoint).
  void follow(std::int64_t step, const Retention& retention, const Log& log) const;

  /// Another `interval` from now on.
  void copy_every(std::int64_t interval) { interval_ = interval; }

  /// Removes the checkpoints after `step`, which a rollback abandoned. Throws Failure(checkpoint).
  void remove_after(std::int64_t step) const;

 private:
  bool due(std::int64_t step) const;

  std::filesystem::path path_, run_;
  std::int64_t interval_;
  FolderLock lock_;
};

/// Steps between copies, from a spec's `every` and `mirror_every`; 0: copy every checkpoint.
std::int64_t mirror_interval(std::int64_t every, std::int64_t mirror_every);

}  // namespace llmc
