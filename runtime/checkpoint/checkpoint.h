// Checkpoints of a run folder: saved completely or not at all, verified before use, removed by retention.
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
#include "data/order/position.h"
#include "device/types.h"
#include "program/mesh.h"
#include "program/parameters.h"

namespace llmc {

/// Everything except the tensors that a resumed run needs. Equal state gives equal bytes on disk.
struct TrainState {
  std::int64_t step = 0;  // optimizer steps done
  DataPosition position;  // of the loader
  std::uint64_t seed = 0, data_seed = 0;
  std::string model_fingerprint;  // meaning of the tensors: spec/fingerprint.h
  std::string data_fingerprint;
  std::string tokenizer;  // checksum of its file; empty: the run has used none
  GuardState guard = {};
  std::optional<Best> best = {};  // record of checkpoint.best, this step included; nothing without that key
  /// Steps whose update was skipped, as far as they were counted (llmc-state-4 and older count them as applied), or was
  /// another optimizer's.
  std::int64_t skipped_updates = 0;
  std::optional<LossScale> loss_scale = {};  // of the next step; nothing if gradients have none
  std::int32_t separator = -1;               // token that ends documents; -1: samples are not divided

  /// Updates that the optimizer has applied; determines its bias correction.
  std::int64_t updates() const { return step - skipped_updates; }
  /// The optimizer's state is that of a new run.
  void begin_optimizer() { skipped_updates = step; }
  bool operator==(const TrainState&) const = default;
};

/// Checkpoints kept after a save: the newest `keep_last` (0 = all), multiples of `keep_every` (0 = none), the newest
/// before each step in `keep_before`, which a rollback may need, and the best.
struct Retention {
  std::int64_t keep_last = 0;
  std::int64_t keep_every = 0;
  std::vector<std::int64_t> keep_before = {};
  std::optional<std::int64_t> best = {};  // a step whose checkpoint is kept
};

/// Receives one-line warnings about handled problems; may be empty.
using Log = std::function<void(const std::string&)>;

inline constexpr std::int64_t kShardBytes = std::int64_t{4} << 30;

/// Ranks that write a checkpoint together; each writes some of the files.
struct Savers {
  WorldRank self;
  /// Gives every rank's text to all ranks, in rank order. Never called with one rank.
  std::function<std::vector<std::string>(const std::string&)> exchange;
};

struct SaveOptions {
  Retention retention;
  Log log;
  Savers savers = {};
  std::function<void()> prepare = {};      // called first by the rank that creates the directory; may be empty
  std::int64_t shard_bytes = kShardBytes;  // of tensor data in a model file; files of moments hold twice as much
  bool read_back = false;                  // reads every file back from disk before the checkpoint appears
};

/// Texts stored verbatim in a checkpoint.
struct CheckpointTexts {
  std::string config_json;  // Hugging Face config.json
  std::string spec_yaml;    // keys that shape the tensors, resolved; no name, path or interval
};

/// Upper bound of the bytes of a checkpoint's files.
std::int64_t checkpoint_bytes(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers);

/// Checks that a first save in `run` can succeed. Throws Failure(checkpoint) when the folder cannot be written or has
/// no space for one checkpoint of `bytes`.
void check_can_save(const std::filesystem::path& run, std::int64_t bytes);

/// Saves that a run will make in steps (from, last]: after each `every` (0: none), after the last, after each border in
/// that range, and after each evaluation that finds the best.
struct SavesAhead {
  std::int64_t from = 0, last = 0;
  std::int64_t every = 0;
  std::int64_t evaluation_every = 0;       // 0: no best is kept
  std::vector<std::int64_t> borders = {};  // steps whose checkpoints are kept, earlier ones included
};

/// Warns on `log` if the disk of RUN/checkpoints, which must exist, cannot hold the checkpoints of `bytes` that are
/// kept when the run ends, and the one being written.
void tell_small_disk(const std::filesystem::path& run, std::int64_t bytes, const Retention& retention,
                     const SavesAhead& ahead, const Log& log);

/// RUN/checkpoints
std::filesystem::path checkpoints_directory(const std::filesystem::path& run);
/// Run folder that contains a checkpoint; empty if none does.
std::filesystem::path run_of(const std::filesystem::path& checkpoint);
/// step-00000100
std::string checkpoint_name(std::int64_t step);

struct CheckpointEntry {
  std::int64_t step;
  std::filesystem::path path;
};

/// Directories with checkpoint names, complete or not, by ascending step. Empty if there is no such folder.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& run);

/// Whether nothing has this path any more: the run's retention, or `llmc checkpoint prune`, has removed the checkpoint.
bool was_removed(const std::filesystem::path& checkpoint);

/// Describes the damage of one checkpoint (find_damage, or a state.json of another step); empty if it is intact.
std::optional<std::string> find_checkpoint_damage(const CheckpointEntry& checkpoint, Depth depth);

/// Newest checkpoint before `step` with correct checksums. Damaged ones are reported to `log` and skipped. If one is
/// removed while it is checked, the search restarts.
std::optional<CheckpointEntry> find_checkpoint_before(const std::filesystem::path& run, std::int64_t step,
                                                      const Log& log);

/// Removes the checkpoints after `step`, complete or not, newest first. Throws Failure(checkpoint). The caller holds
/// the run folder's lock.
void remove_checkpoints_after(const std::filesystem::path& run, std::int64_t step);

/// Newest intact checkpoint, likewise.
std::optional<CheckpointEntry> find_latest_checkpoint(const std::filesystem::path& run, const Log& log,
                                                      Depth depth = Depth::checksums);

/// Reads state.json of a checkpoint. Throws Failure(checkpoint).
TrainState read_train_state(const std::filesystem::path& checkpoint);

/// `unverified`: checks every file's checksum first. `verified`: find_latest_checkpoint has just done so.
enum class Trust { unverified, verified };

/// Fills every buffer. If the checkpoint has another optimizer's state, this run's begins as in a new run: zeros, and
/// no update counts as applied. Moments in another format than this run's (state_formats.h) are converted, which `log`
/// is told. Checks names, shapes and dtypes of all tensors before writing the first element. Throws Failure(checkpoint)
/// naming file and tensor.
TrainState load_checkpoint(const std::filesystem::path& checkpoint, std::span<const ParameterInfo> parameters,
                           StateAccess& access, Trust trust, const Log& log = {});

/// Reads spec.yaml of a checkpoint. Throws Failure(checkpoint).
std::string read_checkpoint_spec(const std::filesystem::path& checkpoint);

}  // namespace llmc
