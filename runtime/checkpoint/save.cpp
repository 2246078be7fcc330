#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/checkpoint.h"
#include "checkpoint/parameter_stream.h"
#include "checkpoint/retention.h"
#include "checkpoint/shards.h"
#include "checkpoint/train_state.h"
#include "error.h"
#include "files/atomic_directory.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

using Shard = std::vector<ParameterInfo>;

std::int64_t tensor_bytes(const ParameterInfo& p) { return p.rows * p.cols * static_cast<std::int64_t>(sizeof(float)); }

/// Consecutive parameters, as split_tensors() splits them.
std::vector<Shard> split(std::span<const ParameterInfo> parameters, std::int64_t limit) {
  std::vector<std::int64_t> bytes;
  for (const ParameterInfo& p : parameters) bytes.push_back(tensor_bytes(p));
  std::vector<Shard> shards;
  for (const std::size_t count : split_tensors(bytes, limit)) {
    shards.emplace_back(parameters.begin(), parameters.begin() + static_cast<std::ptrdiff_t>(count));
    parameters = parameters.subspan(count);
  }
  return shards;
}

std::string index_of(std::span<const Shard> shards) {
  std::int64_t total = 0;
  std::map<std::string, std::string> files;
  for (std::size_t i = 0; i < shards.size(); ++i)
    for (const ParameterInfo& p : shards[i]) {
      files[p.name] = shard_name("model", i, shards.size());
      total += tensor_bytes(p);
    }
  return model_index(files, total);
}

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
  std::vector<std::string> settle(const Savers& savers, const std::string& mine) const {
    const std::string text = (error_.empty() ? "+" + mine : "-" + error_);
    std::vector<std::string> texts = savers.ranks > 1 ? savers.exchange(text) : std::vector{text};
    for (std::size_t rank = 0; rank < texts.size(); ++rank) {
      if (texts[rank][0] == '-')
        throw Failure(Exit::checkpoint,
                      (savers.ranks > 1 ? "rank " + std::to_string(rank) + ": " : "") + texts[rank].substr(1));
      texts[rank].erase(0, 1);
    }
    return texts;
  }

 private:
  std::string error_;
};

/// Reads a parameter for a file. Throws Failure(checkpoint) at a weight that is not finite: nothing could go on from
/// it.
FlatReader reader(StateAccess& access, std::size_t buffer, const ParameterInfo& parameter) {
  return [&access, buffer, &parameter](std::int64_t offset, std::int64_t count, float* out) {
    access.read(buffer, offset, count, out);
    if (buffer != kWeights) return;
    bool finite = true;
    for (std::int64_t i = 0; i < count; ++i) finite &= std::abs(out[i]) <= std::numeric_limits<float>::max();
    if (!finite)
      throw Failure(Exit::checkpoint, std::string("'") + parameter.name + "' has a weight that is not finite");
  };
}

/// What a checkpoint's file holds: of each parameter its elements of buffers [first, past). `owner`: this rank writes
/// it, the others gather for it.
void write_tensors(const fs::path& path, const Shard& shard, std::size_t first, std::size_t past, StateAccess& access,
                   bool owner, Attempt& attempt, std::vector<FileRecord>& files) {
  struct Source {
    std::size_t buffer;
    const ParameterInfo* parameter;
  };
  std::map<std::string, Source> sources;  // in the order of a file
  std::vector<safetensors::TensorSpec> specs;
  for (std::size_t buffer = first; buffer < past; ++buffer)
    for (const ParameterInfo& p : shard) {
      specs.push_back(tensor_spec(p, access.prefixes()[buffer]));
      sources[specs.back().name] = {buffer, &p};
    }
  std::optional<safetensors::Writer> writer;
  if (owner) attempt([&] { writer.emplace(path, specs); });
  for (const auto& [name, source] : sources) {
    access.gather(source.buffer, *source.parameter);
    if (!owner) continue;
    attempt([&] { write_parameter(*writer, *source.parameter, reader(access, source.buffer, *source.parameter)); });
  }
  if (owner) attempt([&] { files.push_back(writer->finish()); });
}

std::string records_text(std::span<const FileRecord> files) {
  nlohmann::json list = nlohmann::json::array();
  for (const FileRecord& file : files) list.push_back({file.name, file.bytes, file.xxh3});
  return list.dump();
}

void add_records(const std::string& text, std::vector<FileRecord>& files) {
  for (const nlohmann::json& file : nlohmann::json::parse(text)) files.push_back({file[0], file[1], file[2]});
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
  const Savers& savers = options.savers;
  const bool first = savers.rank == 0;
  const std::vector<ParameterInfo> stored = stored_parameters(parameters);
  const std::vector<Shard> shards = split(stored, options.shard_bytes);
  const fs::path parent = checkpoints_directory(run),
                 folder = AtomicDirectory::path_of(parent, checkpoint_name(state.step));
  Attempt attempt;
  std::optional<AtomicDirectory> directory;
  if (first)
    attempt([&] {
      if (options.prepare) options.prepare();
      make_directories(parent);
      remove_stale_directories(parent, kCheckpointPrefix);
      check_space(parent, checkpoint_bytes(parameters, access.prefixes().size()));
      directory.emplace(parent, checkpoint_name(state.step));
    });
  attempt.settle(savers, "");

  std::vector<FileRecord> files;
  const std::size_t buffers = access.prefixes().size();
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const bool owner = i % static_cast<std::size_t>(savers.ranks) == static_cast<std::size_t>(savers.rank);
    const auto write = [&](const char* stem, std::size_t first_buffer, std::size_t past) {
      write_tensors(folder / shard_name(stem, i, shards.size()), shards[i], first_buffer, past, access, owner, attempt,
                    files);
    };
    write("model", kWeights, kWeights + 1);
    write("optimizer", kWeights + 1, buffers);
  }
  const std::vector<std::string> written = attempt.settle(savers, records_text(files));
  if (first)
    attempt([&] {
      files.clear();
      for (const std::string& text : written) add_records(text, files);
      if (shards.size() > 1) files.push_back(write_small_file(folder, kModelIndex, index_of(shards)));
      files.push_back(write_small_file(folder, "config.json", texts.config_json));
      files.push_back(write_small_file(folder, "spec.yaml", texts.spec_yaml));
      files.push_back(write_small_file(folder, "state.json", format_train_state(state)));
      write_manifest(folder, files);
      directory->commit();
    });
  attempt.settle(savers, "");
  if (first) apply_retention(run, state.step, options.retention, options.log);
  return parent / checkpoint_name(state.step);
}

}  // namespace llmc
