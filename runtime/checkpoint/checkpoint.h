// Checkpoints of a run folder: saved whole or not at all, verified before use, thinned out by retention.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/best.h"
#include "checkpoint/guard_state.h"
#include "checkpoint/manifest.h"
#include "checkpoint/state_access.h"
#include "data/position.h"
#include "program/mesh.h"
#include "program/parameters.h"

namespace llmc {

/// Everything besides the tensors that a resumed run needs. Equal state gives equal bytes on disk.
struct TrainState {
  std::int64_t step = 0;  // optimizer steps done
  DataPosition position;  // of the loader
  std::uint64_t seed = 0, data_seed = 0;
  std::string model_fingerprint;  // what the tensors mean: spec/fingerprint.h
  std::string data_fingerprint;
  std::string tokenizer;  // checksum of its file; empty: the run has seen none
  GuardState guard = {};
  std::optional<Best> best = {};  // the record of checkpoint.best, this step included; nothing without that
  /// Of the steps those whose update was skipped, as far as they were counted: llmc-state-4 and older have them as
  /// applied.
  std::int64_t skipped_updates = 0;

  /// How many updates the optimizer has applied, which its bias correction goes by.
  std::int64_t updates() const { return step - skipped_updates; }
  bool operator==(const TrainState&) const = default;
};

/// Which checkpoints stay after a save: the newest `keep_last` (0 = all), every multiple of `keep_every` (0 = none),
/// the newest from before each step of `keep_before`, to which a run may have to go back, and the best.
struct Retention {
  std::int64_t keep_last = 0;
  std::int64_t keep_every = 0;
  std::vector<std::int64_t> keep_before = {};
  std::optional<std::int64_t> best = {};  // a step whose checkpoint stays
};

/// Receives one line about something that was survived; may be empty.
using Log = std::function<void(const std::string&)>;

inline constexpr std::int64_t kShardBytes = std::int64_t{4} << 30;

/// The ranks that write a checkpoint together, each some of its files.
struct Savers {
  WorldRank self;
  /// Gives every rank's text to all, in their order; one rank calls it never.
  std::function<std::vector<std::string>(const std::string&)> exchange;
};

struct SaveOptions {
  Retention retention;
  Log log;
  Savers savers = {};
  std::function<void()> prepare = {};      // what the rank that makes the directory does first; may be empty
  std::int64_t shard_bytes = kShardBytes;  // of tensor data in a model file; files of moments hold twice that
  bool read_back = false;                  // every file from the disk, before the checkpoint appears
};

/// Texts that a checkpoint holds as they are.
struct CheckpointTexts {
  std::string config_json;  // Hugging Face's
  std::string spec_yaml;    // the keys that made the tensors, resolved; no name, path or interval
};

/// What a checkpoint of these buffers takes on the disk, counted generously: every file of it.
std::int64_t checkpoint_bytes(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers);

/// What is missing for a first save in `run`: throws Failure(checkpoint) when the folder cannot be written or has no
/// space for one checkpoint; tell_small_disk() otherwise.
void check_can_save(const std::filesystem::path& run, std::span<const ParameterInfo> parameters,
                    std::span<const SavedBuffer> buffers, const Retention& retention, const Log& log);

/// A line for `log` where the disk of RUN/checkpoints, which is there, has no space for as many checkpoints of `bytes`
/// as keep_last leaves and the one that is being written.
void tell_small_disk(const std::filesystem::path& run, std::int64_t bytes, const Retention& retention, const Log& log);

/// RUN/checkpoints
std::filesystem::path checkpoints_directory(const std::filesystem::path& run);
/// The run folder that a checkpoint lies in; empty where it lies in none.
std::filesystem::path run_of(const std::filesystem::path& checkpoint);
/// step-00000100
std::string checkpoint_name(std::int64_t step);

/// Writes RUN/checkpoints/step-NNNNNNNN as docs/reference/run-folder.md says and returns its path; then removes what
/// retention does not keep, never the one just written. Host memory: two blocks of 16 MiB. Throws Failure(checkpoint)
/// when it cannot (no space: before anything is written); then every older checkpoint is as it was and no temporary
/// directory is left. Of several ranks all call it, and it ends the same way on each. The caller, or rank 0's, holds
/// the run folder's lock and logs and goes on.
std::filesystem::path save_checkpoint(const std::filesystem::path& run, const TrainState& state,
                                      const CheckpointTexts& texts, std::span<const ParameterInfo> parameters,
                                      StateAccess& access, const SaveOptions& options = {});

struct CheckpointEntry {
  std::int64_t step;
  std::filesystem::path path;
};

/// Directories named like checkpoints, whole or not, by step ascending. Empty when there is no such folder.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& run);

/// What is wrong with one checkpoint (find_damage, and a state.json of another step); empty when it is sound.
std::optional<std::string> find_checkpoint_damage(const CheckpointEntry& checkpoint, Depth depth);

/// The newest checkpoint of a step below `step` whose checksums are right. Damaged ones are named to `log` and passed
/// over.
std::optional<CheckpointEntry> find_checkpoint_before(const std::filesystem::path& run, std::int64_t step,
                                                      const Log& log);

/// Removes the checkpoints of steps above `step`, whole or not, the newest first. Throws Failure(checkpoint). The
/// caller holds the run folder's lock.
void remove_checkpoints_after(const std::filesystem::path& run, std::int64_t step);

/// The newest checkpoint that is sound. Damaged ones are named to `log` and passed over.
std::optional<CheckpointEntry> find_latest_checkpoint(const std::filesystem::path& run, const Log& log,
                                                      Depth depth = Depth::checksums);

/// state.json of a checkpoint. Throws Failure(checkpoint).
TrainState read_train_state(const std::filesystem::path& checkpoint);

/// `unverified` reads every file for its checksum first; `verified`: find_latest_checkpoint has just done so.
enum class Trust { unverified, verified };

/// Fills every buffer. Names, shapes and dtypes of all tensors are checked before the first element is
/// written. Throws Failure(checkpoint) naming file and tensor.
TrainState load_checkpoint(const std::filesystem::path& checkpoint, std::span<const ParameterInfo> parameters,
                           StateAccess& access, Trust trust);

/// spec.yaml of a checkpoint. Throws Failure(checkpoint).
std::string read_checkpoint_spec(const std::filesystem::path& checkpoint);

}  // namespace llmc
