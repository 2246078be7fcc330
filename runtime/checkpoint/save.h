// Saves a checkpoint phase by phase, so that files can be written concurrently with training.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/division.h"
#include "files/atomic_directory.h"

namespace llmc {

/// Runs collective steps despite errors: after an error a rank only takes part in collective calls, and the error is
/// thrown at the end.
class Attempt {
 public:
  template <class Work>
  void operator()(Work work) {
    if (!error_.empty()) return;
    try {
      work();
    } catch (const std::bad_alloc&) {
      error_ = "the host has no memory left";
    } catch (const std::exception& failure) {
      error_ = failure.what();
    }
  }

  /// Throws Failure(checkpoint) with the first rank's error, on every rank, if any rank failed. Otherwise returns the
  /// texts exchanged by the ranks.
  std::vector<std::string> settle(const Savers& savers, const std::string& mine) const;

 private:
  std::string error_;
};

/// Writes RUN/checkpoints/step-NNNNNNNN as in docs/reference/run-folder.md, with two blocks of 16 MiB of host memory.
/// The caller, or rank 0's, holds the run folder's lock. Failures leave older checkpoints unchanged; missing space is
/// found before anything is written.
///
/// Every rank calls the phases in order. Phases marked as collective throw Failure(checkpoint) equally on every rank,
/// and leave no files then. The others keep an error for the next collective phase. An abandoned save leaves no files.
class CheckpointSave {
 public:
  /// Creates the temporary directory if there is space. Collective. The parameters' names and the texts must outlive
  /// it.
  CheckpointSave(const std::filesystem::path& run, const TrainState& state, const CheckpointTexts& texts,
                 std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers,
                 const SaveOptions& options);

  /// Writes this rank's files. Collective if access.gather() is.
  void write(StateAccess& access);
  /// Collects the records of all ranks' files. Collective.
  void settle();
  /// Writes texts and manifest, reads files back if requested, then publishes the directory. Rank 0 only.
  void publish();
  /// Returns the checkpoint's path. Collective.
  std::filesystem::path finish();

 private:
  std::filesystem::path run_, parent_, folder_;
  TrainState state_;
  const CheckpointTexts& texts_;
  SaveOptions options_;
  std::vector<TensorFile> tensor_files_;
  std::vector<FileRecord> files_;  // written by this rank; after settle(), by all ranks
  std::optional<AtomicDirectory> directory_;
  Attempt attempt_;
};

}  // namespace llmc
