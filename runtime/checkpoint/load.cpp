#include <limits>
#include <memory>
#include <set>
#include <stdexcept>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/parameter_stream.h"
#include "checkpoint/retention.h"
#include "checkpoint/train_state.h"
#include "error.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// A tensor found in a file, and its destination in the flat buffers.
struct Match {
  const safetensors::Reader* reader;
  const safetensors::Entry* entry;
  std::size_t buffer;
  ParameterInfo elements;  // parameter_in()
};

[[noreturn]] void refuse_other_model(const std::string& what) {
  throw Failure(Exit::checkpoint,
                what + "; the checkpoint is of another model. Compile its spec.yaml, or choose another --run");
}

using Readers = std::vector<std::unique_ptr<safetensors::Reader>>;

Readers open_files(const fs::path& directory, std::span<const FileRecord> files, const std::string& stem) {
  Readers readers;
  for (const FileRecord& file : files)
    if (file.name.ends_with(".safetensors") &&
        (file.name == stem + ".safetensors" || file.name.starts_with(stem + "-")))
      readers.push_back(std::make_unique<safetensors::Reader>(directory / file.name));
  return readers;
}

/// Pairs every tensor of the files with a parameter; none may be missing, unknown, doubled or of another type.
void match(const fs::path& directory, const Readers& readers, std::span<const ParameterInfo> stored, std::size_t index,
           const SavedBuffer& buffer, std::set<std::string>& seen, std::vector<Match>& matches) {
  for (const ParameterInfo& p : stored) {
    if (!buffer.covers(p)) continue;
    const ParameterInfo elements = parameter_in(buffer, p);
    const safetensors::TensorSpec wanted = tensor_spec(elements, buffer.prefix, buffer.dtype);
    const std::size_t before = matches.size();
    for (const auto& reader : readers) {
      const safetensors::Entry* entry = reader->find(wanted.name);
      if (entry == nullptr) continue;
      const std::string where = reader->tensor(wanted.name);
      if (matches.size() != before) refuse_other_model(where + " is in two files");
      if (entry->dtype != wanted.dtype)
        refuse_other_model(where + " is " + std::string(dtype_name(entry->dtype)) + ", but this run needs " +
                           std::string(dtype_name(wanted.dtype)));
      if (entry->shape != wanted.shape)
        refuse_other_model(where + " is " + shape_text(entry->shape) + ", but this run needs " +
                           shape_text(wanted.shape));
      matches.push_back({reader.get(), entry, index, elements});
    }
    if (matches.size() == before)
      refuse_other_model("no file of '" + directory.string() + "' has tensor '" + wanted.name + "'");
    seen.insert(wanted.name);
  }
}

void refuse_unknown(const Readers& readers, const std::set<std::string>& seen) {
  for (const auto& reader : readers)
    for (const safetensors::Entry& entry : reader->entries())
      if (seen.count(entry.name) == 0) refuse_other_model(reader->tensor(entry.name) + " is not a tensor of this run");
}

}  // namespace

TrainState read_train_state(const fs::path& checkpoint) {
  const fs::path path = checkpoint / "state.json";
  try {
    return parse_train_state(read_small_file(path));
  } catch (const std::invalid_argument& error) {
    throw Failure(Exit::checkpoint,
                  "'" + path.string() + "' cannot be used: " + error.what() + ". Use another checkpoint of the run");
  }
}

std::string read_checkpoint_spec(const fs::path& checkpoint) { return read_small_file(checkpoint / "spec.yaml"); }

std::optional<std::string> find_checkpoint_damage(const CheckpointEntry& checkpoint, Depth depth) try {
  if (auto damage = find_damage(checkpoint.path, depth)) return damage;
  const std::int64_t step = read_train_state(checkpoint.path).step;
  if (step != checkpoint.step) return "its state.json is of step " + std::to_string(step);
  return std::nullopt;
} catch (const Failure& failure) {
  return failure.what();
}

namespace {

std::optional<CheckpointEntry> find_newest(const fs::path& run, std::int64_t below, const Log& log, Depth depth) {
  const std::vector<CheckpointEntry> checkpoints = list_checkpoints(run);
  for (auto it = checkpoints.rbegin(); it != checkpoints.rend(); ++it) {
    if (it->step >= below) continue;
    const auto damage = find_checkpoint_damage(*it, depth);
    if (!damage) return *it;
    if (log) log("checkpoint '" + it->path.string() + "' is damaged and was skipped: " + *damage);
  }
  return std::nullopt;
}

}  // namespace

std::optional<CheckpointEntry> find_latest_checkpoint(const fs::path& run, const Log& log, Depth depth) {
  return find_newest(run, std::numeric_limits<std::int64_t>::max(), log, depth);
}

std::optional<CheckpointEntry> find_checkpoint_before(const fs::path& run, std::int64_t step, const Log& log) {
  return find_newest(run, step, log, Depth::checksums);
}

namespace {

/// Whether the files have tensors, but none of a buffer of this run's optimizer.
bool of_another_optimizer(const Readers& readers, std::span<const SavedBuffer> state) {
  bool any = false;
  for (const auto& reader : readers)
    for (const safetensors::Entry& entry : reader->entries()) {
      any = true;
      for (const SavedBuffer& buffer : state)
        if (entry.name.starts_with(buffer.prefix)) return false;
    }
  return any;
}

void set_to_zero(std::span<const ParameterInfo> stored, std::size_t index, StateAccess& access) {
  const SavedBuffer& buffer = access.buffers()[index];
  for (const ParameterInfo& p : stored) {
    if (!buffer.covers(p)) continue;
    const ParameterInfo elements = parameter_in(buffer, p);
    const std::vector<std::byte> zeros(static_cast<std::size_t>(bytes_of(buffer.dtype, elements.cols)));
    for (std::int64_t row = 0; row < elements.rows; ++row)
      access.write(index, elements.offset + row * elements.pitch, elements.cols, zeros.data());
  }
}

}  // namespace

TrainState load_checkpoint(const fs::path& checkpoint, std::span<const ParameterInfo> parameters, StateAccess& access,
                           Trust trust) {
  if (trust == Trust::unverified)
    if (const auto damage = find_damage(checkpoint, Depth::checksums))
      throw Failure(Exit::checkpoint,
                    "checkpoint '" + checkpoint.string() + "' is damaged: " + *damage + ". Use an older one");
  TrainState state = read_train_state(checkpoint);
  const std::vector<FileRecord> files = read_manifest(checkpoint);
  const std::vector<ParameterInfo> stored = stored_parameters(parameters);
  const Readers model = open_files(checkpoint, files, "model");
  const Readers optimizer = open_files(checkpoint, files, "optimizer");

  const std::span<const SavedBuffer> buffers = access.buffers();
  std::set<std::string> seen;
  std::vector<Match> matches;
  match(checkpoint, model, stored, kWeights, buffers[kWeights], seen, matches);
  refuse_unknown(model, seen);
  seen.clear();
  const bool anew = of_another_optimizer(optimizer, buffers.subspan(kWeights + 1));
  if (!anew) {
    for (std::size_t i = kWeights + 1; i < buffers.size(); ++i)
      match(checkpoint, optimizer, stored, i, buffers[i], seen, matches);
    refuse_unknown(optimizer, seen);
  }

  for (const Match& found : matches)
    read_parameter(*found.reader, *found.entry, found.elements, buffers[found.buffer].dtype,
                   [&](std::int64_t offset, std::int64_t count, const std::byte* values) {
                     access.write(found.buffer, offset, count, values);
                   });
  if (anew) {
    for (std::size_t i = kWeights + 1; i < buffers.size(); ++i) set_to_zero(stored, i, access);
    state.begin_optimizer();
  }
  return state;
}

}  // namespace llmc
