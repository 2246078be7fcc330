#include <sys/statvfs.h>

#include <cerrno>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/parameter_stream.h"
#include "checkpoint/retention.h"
#include "checkpoint/train_state.h"
#include "error.h"
#include "files/atomic_directory.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

using Shard = std::vector<ParameterInfo>;

std::int64_t tensor_bytes(const ParameterInfo& p) { return p.rows * p.cols * static_cast<std::int64_t>(sizeof(float)); }

/// Consecutive parameters, filled up to the limit; a tensor above the limit is alone.
std::vector<Shard> split(std::span<const ParameterInfo> parameters, std::int64_t limit) {
  std::vector<Shard> shards;
  std::int64_t filled = 0;
  for (const ParameterInfo& p : parameters) {
    if (shards.empty() || tensor_bytes(p) > limit - filled) {
      shards.emplace_back();
      filled = 0;
    }
    shards.back().push_back(p);
    filled += tensor_bytes(p);
  }
  return shards;
}

std::string shard_name(const char* stem, std::size_t index, std::size_t count) {
  if (count == 1) return std::string(stem) + ".safetensors";
  char text[64];
  std::snprintf(text, sizeof text, "%s-%05zu-of-%05zu.safetensors", stem, index + 1, count);
  return text;
}

std::string model_index(std::span<const Shard> shards) {
  std::int64_t total = 0;
  nlohmann::json files = nlohmann::json::object();
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (const ParameterInfo& p : shards[i]) {
      files[p.name] = shard_name("model", i, shards.size());
      total += tensor_bytes(p);
    }
  return nlohmann::json{{"metadata", {{"total_size", total}}}, {"weight_map", files}}.dump(2) + "\n";
}

FileRecord write_optimizer(const fs::path& path, const Shard& shard, StateAccess& access) {
  struct Source {
    std::size_t buffer;
    const ParameterInfo* parameter;
  };
  std::map<std::string, Source> sources;
  std::vector<safetensors::TensorSpec> specs;
  for (const ParameterInfo& p : shard)
    for (std::size_t buffer = kWeights + 1; buffer < access.prefixes().size(); ++buffer) {
      specs.push_back(tensor_spec(p, access.prefixes()[buffer]));
      sources[specs.back().name] = {buffer, &p};
    }
  safetensors::Writer writer(path, specs);
  for (const safetensors::Entry& entry : writer.entries()) {
    const Source& source = sources.at(entry.name);
    write_parameter(writer, *source.parameter, [&](std::int64_t offset, std::int64_t count, float* out) {
      access.read(source.buffer, offset, count, out);
    });
  }
  return writer.finish();
}

/// Bytes that are free where `directory` lies; nothing on a file system that does not say.
std::optional<std::int64_t> free_bytes(const fs::path& directory) {
  struct statvfs space{};
  int result;
  do result = ::statvfs(directory.c_str(), &space);
  while (result != 0 && errno == EINTR);
  if (result != 0) throw_errno("examine", directory);
  if (space.f_blocks == 0) return std::nullopt;
  const unsigned __int128 bytes = static_cast<unsigned __int128>(space.f_bavail) * space.f_frsize;
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  return bytes > static_cast<unsigned __int128>(kMost) ? kMost : static_cast<std::int64_t>(bytes);
}

void check_space(const fs::path& directory, std::int64_t needed) {
  const std::optional<std::int64_t> available = free_bytes(directory);
  if (available && *available < needed)
    throw Failure(Exit::checkpoint, "no space for a checkpoint in '" + directory.string() + "': it needs " +
                                        std::to_string(needed) + " bytes and " + std::to_string(*available) +
                                        " are free; free some space or choose another --run");
}

}  // namespace

std::int64_t checkpoint_bytes(std::span<const ParameterInfo> parameters, std::size_t buffers) {
  const auto count = static_cast<std::int64_t>(buffers);
  std::int64_t bytes = 1 << 20;  // texts, the manifest, and a block a file
  for (const ParameterInfo& p : stored_parameters(parameters))
    bytes += count * tensor_bytes(p) + (count + 1) * 512;  // lines of headers and of the index
  return bytes;
}

void check_can_save(const fs::path& run, std::span<const ParameterInfo> parameters, std::size_t buffers,
                    std::int64_t count, const Log& log) {
  const fs::path parent = checkpoints_directory(run);
  make_directories(parent);
  remove_stale_directories(parent, kCheckpointPrefix);
  {
    const AtomicDirectory probe(parent, std::string(kCheckpointPrefix) + "probe");
    write_small_file(probe.path(), "probe", "x");
  }
  const std::int64_t one = checkpoint_bytes(parameters, buffers);
  check_space(parent, one);
  const auto there = static_cast<std::int64_t>(list_checkpoints(run).size());
  const std::int64_t more = std::max<std::int64_t>(count - there, 1);
  const std::optional<std::int64_t> available = free_bytes(parent);
  if (log && available && *available / one < more)
    log("'" + parent.string() + "' has space for " + std::to_string(*available / one) + " more checkpoints of " +
        std::to_string(one) + " bytes, and checkpoint.keep_last is to leave " + std::to_string(more) +
        "; saving will fail unless some space is freed");
}

fs::path save_checkpoint(const fs::path& run, const TrainState& state, const CheckpointTexts& texts,
                         std::span<const ParameterInfo> parameters, StateAccess& access, const SaveOptions& options) {
  const std::vector<ParameterInfo> stored = stored_parameters(parameters);
  const std::vector<Shard> shards = split(stored, options.shard_bytes);
  const fs::path parent = checkpoints_directory(run);
  make_directories(parent);
  remove_stale_directories(parent, kCheckpointPrefix);
  check_space(parent, checkpoint_bytes(parameters, access.prefixes().size()));

  fs::path saved;
  {
    AtomicDirectory directory(parent, checkpoint_name(state.step));
    std::vector<FileRecord> files;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      files.push_back(write_parameters(
          directory.path() / shard_name("model", i, shards.size()), shards[i],
          [&](std::int64_t offset, std::int64_t count, float* out) { access.read(kWeights, offset, count, out); }));
      files.push_back(write_optimizer(directory.path() / shard_name("optimizer", i, shards.size()), shards[i], access));
    }
    if (shards.size() > 1)
      files.push_back(write_small_file(directory.path(), "model.safetensors.index.json", model_index(shards)));
    files.push_back(write_small_file(directory.path(), "config.json", texts.config_json));
    files.push_back(write_small_file(directory.path(), "spec.yaml", texts.spec_yaml));
    files.push_back(write_small_file(directory.path(), "state.json", format_train_state(state)));
    write_manifest(directory.path(), files);
    saved = directory.commit();
  }
  apply_retention(run, state.step, options.retention, options.log);
  return saved;
}

}  // namespace llmc
