// A checkpoint on its way to the disk, phase by phase, so that files can be written beside training.
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

/// What every rank has to go through together: after an error a rank does nothing more, but calls what all call, and
/// the error is told in the end.
class Attempt {
 public:
  template <class Work>
  void operator()(Work work) {
    if (!error_.empty()) return;
    try {
      work();
    } catch (const std::bad_alloc&) {
      error_ = "the host's memory is used up";
    } catch (const std::exception& failure) {
      error_ = failure.what();
    }
  }

  /// Whether all ranks came here without an error; else throws Failure(checkpoint) with the first of them, on every
  /// rank. Returns the texts that the ranks give each other.
  std::vector<std::string> settle(const Savers& savers, const std::string& mine) const;

 private:
  std::string error_;
};

/// Every rank goes through the phases in their order. Those that say so are collective where several ranks save; they
/// throw Failure(checkpoint) alike on every rank, and then nothing is left. The others keep an error for the next one
/// that is. A save that is given up leaves nothing.
class CheckpointSave {
 public:
  /// Makes the temporary directory, where there is space. Collective. What the parameters point to, and the texts,
  /// outlive it.
  CheckpointSave(const std::filesystem::path& run, const TrainState& state, const CheckpointTexts& texts,
                 std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers,
                 const SaveOptions& options);

  /// Writes the files that are this rank's. Collective where access.gather() is.
  void write(StateAccess& access);
  /// Collects what all have written. Collective.
  void settle();
  /// Texts and manifest, and where asked for every file read back; then the directory appears. Of rank 0.
  void publish();
  /// The checkpoint's path. Collective.
  std::filesystem::path finish();

 private:
  std::filesystem::path run_, parent_, folder_;
  TrainState state_;
  const CheckpointTexts& texts_;
  SaveOptions options_;
  std::vector<TensorFile> tensor_files_;
  std::vector<FileRecord> files_;  // that this rank has written; after settle(), of all ranks
  std::optional<AtomicDirectory> directory_;
  Attempt attempt_;
};

}  // namespace llmc
