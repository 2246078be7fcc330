#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/parameter_stream.h"
#include "checkpoint/retention.h"
#include "checkpoint/state_formats.h"
#include "checkpoint/stored_numbers.h"
#include "checkpoint/train_state.h"
#include "error.h"
#include "text/plural.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

/// A tensor found in a file, and its destination in the flat buffers.
struct Match {
  const safetensors::Reader* reader;
  const safetensors::Entry* entry;
  std::size_t buffer;
  ParameterInfo elements;  // parameter_in()
  // A moment in another format: of codes their scales in the file, of numbers the buffer for the scales.
  const safetensors::Entry* scales = nullptr;
  std::size_t scale_buffer = kWeights;
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

/// Tensors of a training state in the files of a checkpoint.
struct Matches {
  std::vector<Match> tensors;
  std::set<std::size_t> absent;    // buffers of an element a row that the files lack
  std::set<std::string> left_out;  // prefixes of such tensors that this run does not keep
};

/// Pairs every tensor of some files with a parameter; none may be missing, unknown, doubled or of another type, but for
/// moments in another format, and those of rows.
class Matching {
 public:
  Matching(const fs::path& directory, const Readers& readers, std::span<const ParameterInfo> stored,
           std::span<const SavedBuffer> buffers, Matches& matches)
      : directory_(directory), readers_(readers), stored_(stored), buffers_(buffers), matches_(matches) {}

  void buffers(std::size_t first, std::size_t past) {
    for (std::size_t index = first; index < past; ++index)
      for (const ParameterInfo& p : stored_)
        if (buffers_[index].covers(p)) tensor(index, p);
    for (const Match& match : matches_.tensors)
      if (matches_.absent.contains(match.buffer))
        refuse_other_model("'" + directory_.string() + "' lacks tensors of the kind of '" + match.entry->name + "'");
    for (const auto& reader : readers_)
      for (const safetensors::Entry& entry : reader->entries())
        if (seen_.count(entry.name) == 0 && !leave_out(entry.name))
          refuse_other_model(reader->tensor(entry.name) + " is not a tensor of this run");
  }

 private:
  bool leave_out(const std::string& name) {
    const std::size_t dot = name.find('.');
    if (dot == std::string::npos || !is_row_state(std::string_view(name).substr(0, dot)) ||
        std::ranges::none_of(stored_, [&](const ParameterInfo& p) { return name.substr(dot + 1) == p.name; }))
      return false;
    matches_.left_out.insert(name.substr(0, dot));
    return true;
  }

  void tensor(std::size_t index, const ParameterInfo& p) {
    const SavedBuffer& buffer = buffers_[index];
    const ParameterInfo elements = parameter_in(buffer, p);
    const safetensors::TensorSpec wanted = tensor_spec(elements, buffer.prefix, buffer.dtype);
    if (made_.count(wanted.name)) return;
    const auto [reader, entry] = find(wanted.name);
    if (!reader && buffer.of_rows) {
      matches_.absent.insert(index);
      return;
    }
    if (!reader) refuse_other_model("no file of '" + directory_.string() + "' has tensor '" + wanted.name + "'");
    const std::string where = reader->tensor(wanted.name);
    Match match{reader, entry, index, elements};
    if (entry->dtype != wanted.dtype && !converts(match, buffer, p))
      refuse_other_model(where + " is " + std::string(dtype_name(entry->dtype)) + ", but this run needs " +
                         std::string(dtype_name(wanted.dtype)));
    if (entry->shape != wanted.shape)
      refuse_other_model(where + " is " + shape_text(entry->shape) + ", but this run needs " +
                         shape_text(wanted.shape));
    seen_.insert(wanted.name);
    matches_.tensors.push_back(match);
  }

  struct Found {
    const safetensors::Reader* reader = nullptr;
    const safetensors::Entry* entry = nullptr;
  };
  Found find(const std::string& name) const {
    Found found;
    for (const auto& reader : readers_)
      if (const safetensors::Entry* entry = reader->find(name)) {
        if (found.reader) refuse_other_model(reader->tensor(name) + " is in two files");
        found = {reader.get(), entry};
      }
    return found;
  }

  /// Whether a moment of another type is one in the other format, which the match then says.
  bool converts(Match& match, const SavedBuffer& buffer, const ParameterInfo& p) {
    if (match.buffer == kWeights || buffer.block != 1) return false;
    const std::string prefix = scale_prefix(buffer.prefix);
    if (is_dynamic(buffer.dtype) && match.entry->dtype == safetensors::Dtype::kF32) {
      const auto scales = std::ranges::find_if(
          buffers_, [&](const SavedBuffer& other) { return other.prefix == prefix && other.covers(p); });
      if (scales == buffers_.end()) return false;
      match.scale_buffer = static_cast<std::size_t>(scales - buffers_.begin());
      made_.insert(prefix + p.name);
      return true;
    }
    const auto codes = codes_named(buffer.prefix.substr(0, buffer.prefix.size() - 1));
    if (buffer.dtype != DType::f32 || !codes || match.entry->dtype != stored_type(*codes)) return false;
    const auto [reader, entry] = find(prefix + p.name);
    if (reader != match.reader || entry->dtype != safetensors::Dtype::kF32 ||
        entry->shape != std::vector{in_blocks(p.rows * p.cols, kStateBlock)})
      refuse_other_model(match.reader->tensor(match.entry->name) + " has codes without their scales");
    match.scales = entry;
    seen_.insert(prefix + p.name);
    return true;
  }

  const fs::path& directory_;
  const Readers& readers_;
  std::span<const ParameterInfo> stored_;
  std::span<const SavedBuffer> buffers_;
  Matches& matches_;
  std::set<std::string> seen_, made_;  // names of tensors: used; of scales that numbers of the file will have
};

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
  constexpr int kMostListings = 10;  // a network file system may list a removed checkpoint for some time
  bool removed = true;
  for (int listings = 0; removed && listings < kMostListings; ++listings) {
    removed = false;
    const std::vector<CheckpointEntry> checkpoints = list_checkpoints(run);
    for (auto it = checkpoints.rbegin(); it != checkpoints.rend() && !removed; ++it) {
      if (it->step >= below) continue;
      const auto damage = find_checkpoint_damage(*it, depth);
      if (!damage) return *it;
      removed = was_removed(it->path);  // the trainer that removed it has saved a newer one
      if (!removed && log) log("checkpoint '" + it->path.string() + "' is damaged and was skipped: " + *damage);
    }
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

/// Whether the files are another optimizer's: of some parameter they have state, but none that this run keeps of it.
/// Two optimizers may share a moment's name (Lion's and Muon's), or keep the same of some parameters (Muon's and
/// AdamW's).
bool of_another_optimizer(const Readers& readers, std::span<const ParameterInfo> stored,
                          std::span<const SavedBuffer> state) {
  std::map<std::string_view, const ParameterInfo*> by_name;
  for (const ParameterInfo& p : stored) by_name[p.name] = &p;
  std::map<const ParameterInfo*, bool> has_own;  // of parameters with state in the files
  for (const auto& reader : readers)
    for (const safetensors::Entry& entry : reader->entries()) {
      const std::size_t name = entry.name.find('.') + 1;  // behind the prefix
      const auto found = by_name.find(std::string_view(entry.name).substr(name));
      if (found == by_name.end()) continue;
      const ParameterInfo& p = *found->second;
      has_own[&p] |= std::ranges::any_of(state, [&](const SavedBuffer& buffer) {
        return buffer.covers(p) && std::string_view(entry.name).substr(0, name) == buffer.prefix;
      });
    }
  return std::ranges::any_of(has_own, [](const auto& of) { return !of.second; });
}

void read(const Match& match, StateAccess& access) {
  const SavedBuffer& buffer = access.buffers()[match.buffer];
  if (match.scale_buffer != kWeights)
    return quantise_moment(*match.reader, *match.entry, match.elements, access, match.buffer, match.scale_buffer);
  if (match.scales)
    return dequantise_moment(
        {match.reader, match.entry, match.scales, *codes_named(buffer.prefix.substr(0, buffer.prefix.size() - 1))},
        match.elements, access, match.buffer);
  read_parameter(*match.reader, *match.entry, match.elements, buffer.dtype,
                 [&](std::int64_t offset, std::int64_t count, const std::byte* values) {
                   access.write(match.buffer, offset, count, values);
                 });
}

/// "24 tensors of the optimizer's state were converted from fp32 to int8"; empty if none was.
std::string conversions(std::span<const Match> matches) {
  const auto text = [](std::int64_t count, const char* what) {
    return count ? std::to_string(count) + " tensor" + plural(count) + " of the optimizer's state " +
                       (count == 1 ? "was" : "were") + " converted from " + what
                 : std::string();
  };
  const std::string to_codes = text(std::ranges::count_if(matches, [](const Match& m) { return m.scale_buffer > 0; }),
                                    "fp32 to int8"),
                    to_numbers =
                        text(std::ranges::count_if(matches, [](const Match& m) { return m.scales != nullptr; }),
                             "int8 to fp32");
  return to_codes + (to_codes.empty() || to_numbers.empty() ? "" : ", ") + to_numbers;
}

/// "neuron_avg_sq begins at 0: the checkpoint lacks it"; empty if it has what this run keeps of rows, and no more.
std::string changes_of_rows(const Matches& matches, std::span<const SavedBuffer> buffers) {
  std::string text;
  for (const std::size_t index : matches.absent)
    text += (text.empty() ? "" : "; ") + buffers[index].prefix.substr(0, buffers[index].prefix.size() - 1) +
            " begins at 0: the checkpoint lacks it";
  for (const std::string& prefix : matches.left_out)
    text += (text.empty() ? "" : "; ") + prefix + " of the checkpoint is left out: this run does not keep it";
  return text;
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
                           Trust trust, const Log& log) {
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
  Matches matches;
  Matching(checkpoint, model, stored, buffers, matches).buffers(kWeights, kWeights + 1);
  const bool anew = of_another_optimizer(optimizer, stored, buffers.subspan(kWeights + 1));
  if (!anew) Matching(checkpoint, optimizer, stored, buffers, matches).buffers(kWeights + 1, buffers.size());

  for (const Match& match : matches.tensors) read(match, access);
  for (const std::size_t index : matches.absent) set_to_zero(stored, index, access);
  for (const std::string& text : {conversions(matches.tensors), changes_of_rows(matches, buffers)})
    if (log && !text.empty()) log(text);
  if (anew) {
    for (std::size_t i = kWeights + 1; i < buffers.size(); ++i) set_to_zero(stored, i, access);
    state.begin_optimizer();
  }
  return state;
}

}  // namespace llmc
