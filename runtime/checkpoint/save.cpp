#include "checkpoint/save.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>

#include "checkpoint/parameter_stream.h"
#include "checkpoint/retention.h"
#include "checkpoint/shards.h"
#include "checkpoint/train_state.h"
#include "error.h"
#include "files/atomic_directory.h"
#include "text/plural.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

std::int64_t tensor_bytes(const ParameterInfo& p) { return p.rows * p.cols * static_cast<std::int64_t>(sizeof(float)); }

std::string index_of(std::span<const TensorFile> files) {
  std::int64_t total = 0;
  std::map<std::string, std::string> file_of;
  for (const TensorFile& file : files) {
    if (file.first != kWeights) continue;
    for (const ParameterInfo& p : file.parameters) {
      file_of[p.name] = file.name;
      total += tensor_bytes(p);
    }
  }
  return model_index(file_of, total);
}

/// Reads a parameter for a file. Throws Failure(checkpoint) on a non-finite weight, because no run could resume from
/// it.
FlatReader reader(StateAccess& access, std::size_t buffer, const ParameterInfo& parameter) {
  return [&access, buffer, &parameter](std::int64_t offset, std::int64_t count, std::byte* out) {
    access.read(buffer, offset, count, out);
    if (buffer != kWeights) return;
    const auto* const weights = reinterpret_cast<const float*>(out);
    bool finite = true;
    for (std::int64_t i = 0; i < count; ++i) finite &= std::abs(weights[i]) <= std::numeric_limits<float>::max();
    if (!finite)
      throw Failure(Exit::checkpoint, std::string("'") + parameter.name + "' has a weight that is not finite");
  };
}

std::string records_text(std::span<const FileRecord> files) {
  nlohmann::json list = nlohmann::json::array();
  for (const FileRecord& file : files) list.push_back({file.name, file.bytes, file.xxh3});
  return list.dump();
}

void add_records(const std::string& text, std::vector<FileRecord>& files) {
  for (const nlohmann::json& file : nlohmann::json::parse(text)) files.push_back({file[0], file[1], file[2]});
}

/// Free bytes of the file system of `directory`; nothing if it does not report them.
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
                                        " are free. Free some space or choose another --run");
}

}  // namespace

std::int64_t checkpoint_bytes(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers) {
  std::int64_t bytes = 1 << 20;  // texts, the manifest, and a block a file
  for (const ParameterInfo& p : stored_parameters(parameters)) {
    bytes += 512;  // a line of the index
    for (const SavedBuffer& buffer : buffers) {
      if (!buffer.covers(p)) continue;
      const ParameterInfo elements = parameter_in(buffer, p);
      bytes += bytes_of(buffer.dtype, elements.rows * elements.cols) + 512;  // and of a header
    }
  }
  return bytes;
}

void check_can_save(const fs::path& run, std::int64_t bytes) {
  const fs::path parent = checkpoints_directory(run);
  make_directories(parent);
  remove_stale_directories(parent, kCheckpointPrefix);
  {
    const AtomicDirectory probe(parent, std::string(kCheckpointPrefix) + "probe");
    write_small_file(probe.path(), "probe", "x");
  }
  check_space(parent, bytes);
}

namespace {

/// Checkpoints that are kept for another reason than keep_last when the run ends.
struct KeptLonger {
  std::int64_t checkpoints = 0;
  std::string reasons;  // " with the best and borders of phases", or empty
};

bool is_multiple(std::int64_t step, std::int64_t every) { return every > 0 && step % every == 0; }

/// Returns those that the run will make in (ahead.from, limit].
KeptLonger kept_longer(const Retention& retention, const SavesAhead& ahead, std::int64_t limit, bool has_best) {
  KeptLonger kept;
  const auto add = [&](std::int64_t checkpoints, const std::string& reason) {
    if (checkpoints <= 0) return;
    kept.checkpoints += checkpoints;
    kept.reasons += (kept.reasons.empty() ? " with " : " and ") + reason;
  };
  const auto multiples = [&](std::int64_t every) { return every > 0 ? limit / every - ahead.from / every : 0; };
  std::int64_t every = 0;  // least common multiple; one that overflows is beyond any run
  if (ahead.every > 0 && retention.keep_every > 0 &&
      __builtin_mul_overflow(ahead.every / std::gcd(ahead.every, retention.keep_every), retention.keep_every, &every))
    every = 0;
  add(multiples(every), "keep_every=" + std::to_string(retention.keep_every));
  add(std::ranges::count_if(
          ahead.borders,
          [&](std::int64_t border) { return border > ahead.from && border <= limit && !is_multiple(border, every); }),
      "borders of phases");
  add(!has_best && multiples(ahead.evaluation_every) > 0, "the best");
  return kept;
}

}  // namespace

void tell_small_disk(const fs::path& run, std::int64_t bytes, const Retention& retention, const SavesAhead& ahead,
                     const Log& log) {
  const fs::path parent = checkpoints_directory(run);
  const std::optional<std::int64_t> available = free_bytes(parent);
  if (!log || !available) return;
  const std::vector<CheckpointEntry> there = list_checkpoints(run);
  // Checkpoints kept for another reason free no space.
  const auto goes = [&](const CheckpointEntry& entry) {
    return entry.step != retention.best && !is_multiple(entry.step, retention.keep_every) &&
           std::ranges::find(ahead.borders, entry.step) == ahead.borders.end();
  };
  const bool has_best = std::ranges::find(there, retention.best, &CheckpointEntry::step) != there.end();
  const std::int64_t by_interval = ahead.every > 0 ? (ahead.last - 1) / ahead.every : 0;
  std::int64_t more = kept_longer({0, ahead.every}, ahead, ahead.last - 1, has_best).checkpoints + 1;  // all of them
  KeptLonger longer;
  if (retention.keep_last > 0) {
    // While the last is written, the newest of those before it are kept by keep_last.
    const std::int64_t older = std::max<std::int64_t>(by_interval - retention.keep_last, 0);
    longer = kept_longer(retention, ahead, ahead.every > 0 ? older * ahead.every : ahead.last - 1, has_best);
    const std::int64_t wanted = retention.keep_last + 1 + longer.checkpoints;
    more = std::min(more, std::max<std::int64_t>(wanted - std::ranges::count_if(there, goes), 1));
  }
  if (*available / bytes >= more) return;
  log("'" + parent.string() + "' has space for " + std::to_string(*available / bytes) + " more checkpoint" +
      plural(*available / bytes) + " of " + std::to_string(bytes) +
      " bytes, and checkpoint.keep_last=" + std::to_string(retention.keep_last) + longer.reasons + " takes " +
      std::to_string(more) + " more, including the one being written. Free some space, or saving will fail");
}

std::vector<std::string> Attempt::settle(const Savers& savers, const std::string& mine) const {
  const std::string text = (error_.empty() ? "+" + mine : "-" + error_);
  std::vector<std::string> texts = savers.self.size > 1 ? savers.exchange(text) : std::vector{text};
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (texts[rank][0] == '-')
      throw Failure(Exit::checkpoint,
                    (savers.self.size > 1 ? "rank " + std::to_string(rank) + ": " : "") + texts[rank].substr(1));
    texts[rank].erase(0, 1);
  }
  return texts;
}

CheckpointSave::CheckpointSave(const fs::path& run, const TrainState& state, const CheckpointTexts& texts,
                               std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers,
                               const SaveOptions& options)
    : run_(run),
      parent_(checkpoints_directory(run)),
      folder_(AtomicDirectory::path_of(parent_, checkpoint_name(state.step))),
      state_(state),
      texts_(texts),
      options_(options),
      tensor_files_(
          tensor_files(stored_parameters(parameters), buffers.size(), options.savers.self, options.shard_bytes)) {
  if (options_.savers.self.index == 0)
    attempt_([&] {
      if (options_.prepare) options_.prepare();
      make_directories(parent_);
      remove_stale_directories(parent_, kCheckpointPrefix);
      check_space(parent_, checkpoint_bytes(parameters, buffers));
      directory_.emplace(parent_, checkpoint_name(state_.step));
    });
  attempt_.settle(options_.savers, "");
}

void CheckpointSave::write(StateAccess& access) {
  for (const TensorFile& file : tensor_files_) {
    const bool owner = file.owner == options_.savers.self;
    const auto tensors = tensors_of(file, access.buffers());
    std::vector<safetensors::TensorSpec> specs;
    for (const auto& [name, tensor] : tensors)
      specs.push_back(tensor_spec(tensor.elements, access.buffers()[tensor.buffer].prefix, tensor.dtype));
    std::optional<safetensors::Writer> writer;
    if (owner) attempt_([&] { writer.emplace(folder_ / file.name, specs); });
    for (const auto& [name, tensor] : tensors) {
      access.gather(tensor.buffer, *tensor.parameter);
      if (!owner) continue;
      attempt_([&] {
        write_parameter(*writer, tensor.elements, tensor.dtype, reader(access, tensor.buffer, *tensor.parameter));
      });
    }
    if (owner) attempt_([&] { files_.push_back(writer->finish()); });
  }
}

void CheckpointSave::settle() {
  const std::vector<std::string> written = attempt_.settle(options_.savers, records_text(files_));
  files_.clear();
  for (const std::string& text : written) add_records(text, files_);
}

void CheckpointSave::publish() {
  if (options_.savers.self.index != 0) return;
  attempt_([&] {
    if (tensor_files_.size() > 2) files_.push_back(write_small_file(folder_, kModelIndex, index_of(tensor_files_)));
    files_.push_back(write_small_file(folder_, "config.json", texts_.config_json));
    files_.push_back(write_small_file(folder_, "spec.yaml", texts_.spec_yaml));
    files_.push_back(write_small_file(folder_, "state.json", format_train_state(state_)));
    write_manifest(folder_, files_);
    if (options_.read_back) {
      for (const FileRecord& file : files_) forget_cached(folder_ / file.name);
      if (const auto damage = find_damage(folder_, Depth::checksums))
        throw Failure(Exit::checkpoint, "the checkpoint is damaged when read back from the disk: " + *damage);
    }
    directory_->commit();
  });
}

fs::path CheckpointSave::finish() {
  attempt_.settle(options_.savers, "");
  return parent_ / checkpoint_name(state_.step);
}

}  // namespace llmc
