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

#include "checkpoint/manifest.h"
#include "checkpoint/state_access.h"
#include "train/program.h"

namespace llmc {

/// Everything besides the tensors that a resumed run needs. Equal state gives equal bytes on disk.
struct TrainState {
  std::int64_t step = 0;               // optimizer steps done
  std::uint64_t samples_consumed = 0;  // position of the loader
  std::uint64_t seed = 0, data_seed = 0;
  std::string spec_fingerprint, data_fingerprint;

  bool operator==(const TrainState&) const = default;
};

/// Which checkpoints stay after a save: the newest `keep_last` (0 = all) and every multiple of `keep_every` (0 = none).
struct Retention {
  std::int64_t keep_last = 0;
  std::int64_t keep_every = 0;
};

/// Receives one line about something that was survived; may be empty.
using Log = std::function<void(const std::string&)>;

inline constexpr std::int64_t kShardBytes = std::int64_t{4} << 30;

struct SaveOptions {
  Retention retention;
  Log log;
  std::int64_t shard_bytes = kShardBytes;  // of tensor data in a model file; files of moments hold twice that
};

/// RUN/checkpoints
std::filesystem::path checkpoints_directory(const std::filesystem::path& run);
/// step-00000100
std::string checkpoint_name(std::int64_t step);

/// Writes RUN/checkpoints/step-NNNNNNNN as docs/manual.md says and returns its path; then removes what retention does not
/// keep, never the one just written. `config_json` goes to config.json as it is. Host memory: two blocks of 16 MiB.
/// Throws Failure(checkpoint) when it cannot (no space: before anything is written); then every older checkpoint is as
/// it was and no temporary directory is left. The caller holds the run folder's lock and logs and goes on.
std::filesystem::path save_checkpoint(const std::filesystem::path& run, const TrainState& state,
                                      std::string_view config_json, std::span<const ParameterInfo> parameters,
                                      StateAccess& access, const SaveOptions& options = {});

struct CheckpointEntry {
  std::int64_t step;
  std::filesystem::path path;
};

/// Directories named like checkpoints, whole or not, by step ascending. Empty when there is no such folder.
std::vector<CheckpointEntry> list_checkpoints(const std::filesystem::path& run);

/// What is wrong with one checkpoint (find_damage, and a state.json of another step); empty when it is sound.
std::optional<std::string> find_checkpoint_damage(const CheckpointEntry& checkpoint, Depth depth);

/// The newest checkpoint whose every checksum is right. Damaged ones are named to `log` and passed over.
std::optional<CheckpointEntry> find_latest_checkpoint(const std::filesystem::path& run, const Log& log);

/// state.json of a checkpoint. Throws Failure(checkpoint).
TrainState read_train_state(const std::filesystem::path& checkpoint);

/// `unverified` reads every file for its checksum first; `verified`: find_latest_checkpoint has just done so.
enum class Trust { unverified, verified };

/// Fills the three flat buffers. Names, shapes and dtypes of all tensors are checked before the first element is
/// written. Throws Failure(checkpoint) naming file and tensor.
TrainState load_checkpoint(const std::filesystem::path& checkpoint, std::span<const ParameterInfo> parameters,
                           StateAccess& access, Trust trust);

/// Throws Failure(checkpoint) with both values when the checkpoint was made by another spec or from other data.
void check_fingerprints(const TrainState& saved, const std::string& spec_fingerprint,
                        const std::string& data_fingerprint, const std::filesystem::path& checkpoint);

}  // namespace llmc
