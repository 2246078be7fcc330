#include "compiler/tools/checkpoints/damage.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>

#include "checkpoint/manifest.h"
#include "checkpoint/parameter_stream.h"
#include "checkpoint/retention.h"
#include "checkpoint/shards.h"
#include "compiler/graph/llama.h"
#include "compiler/tools/checkpoints/blocks.h"
#include "compiler/tools/checkpoints/contents.h"
#include "compiler/tools/report/plan_report.h"
#include "error.h"
#include "files/disk.h"
#include "spec/fingerprint.h"
#include "text/console.h"
#include "text/plural.h"

namespace llmc::checkpoints {

namespace fs = std::filesystem;

namespace {

using Readers = std::vector<std::unique_ptr<safetensors::Reader>>;
using BuffersOf = std::vector<SavedBuffer> (*)(const spec::Spec&);

constexpr std::int64_t kTensorsShown = 8;  // per file: all tensors after a cut are missing

/// Returns the header's entries of a truncated safetensors file; none if it cannot be read.
std::vector<safetensors::Entry> entries_of_cut_file(const fs::path& path, std::uint64_t bytes_before) {
  std::ifstream file = disk::open(path);
  std::uint64_t header_bytes = 0;
  if (!file.read(reinterpret_cast<char*>(&header_bytes), sizeof header_bytes)) return {};
  if (header_bytes > safetensors::kMaxHeaderBytes || header_bytes + sizeof header_bytes > bytes_before) return {};
  std::string json(header_bytes, '\0');
  if (!file.read(json.data(), static_cast<std::streamsize>(json.size()))) return {};
  try {
    return safetensors::parse_header(json, bytes_before - header_bytes - sizeof header_bytes).entries;
  } catch (const std::invalid_argument&) {
    return {};
  }
}

class Verification {
 public:
  Verification(const fs::path& path, BuffersOf buffers) : buffers_(buffers) { verdict_.path = path; }

  DamageReport run() {
    std::vector<FileRecord> files;
    try {
      files = read_manifest(verdict_.path);
    } catch (const Failure& failure) {
      add("manifest.json", "", failure.what());
      return std::move(verdict_);
    }
    for (const std::string& name : missing_records(files)) add(name, "", "the manifest does not list it");
    Readers readers;
    bool opened = true;
    for (const FileRecord& file : files) opened &= check_file(file, readers);
    find_strangers(files);
    check_state();
    if (const auto expected = check_spec(); expected && opened) check_tensors(*expected, readers);
    return std::move(verdict_);
  }

 private:
  void add(const std::string& file, const std::string& tensor, const std::string& what) {
    verdict_.damage.push_back({file, tensor, what});
  }

  /// Checks a file. Returns whether its tensors can be examined.
  bool check_file(const FileRecord& file, Readers& readers) {
    const fs::path path = verdict_.path / file.name;
    ++verdict_.files;
    verdict_.bytes += static_cast<std::int64_t>(file.bytes);
    std::optional<std::string> damage;
    try {
      damage = find_file_damage(verdict_.path, file, Depth::checksums);
    } catch (const Failure& failure) {
      add(file.name, "", failure.what());
      return false;
    }
    if (damage) add(file.name, "", "it " + *damage);
    if (!holds_tensors(file.name)) return true;
    try {
      readers.push_back(std::make_unique<safetensors::Reader>(path));
    } catch (const Failure& failure) {
      std::error_code error;
      const std::uint64_t bytes = fs::file_size(path, error);
      if (!damage) add(file.name, "", failure.what());
      if (!error && bytes < file.bytes) find_cut_tensors(file, bytes);
      return false;
    }
    const safetensors::Reader& reader = *readers.back();
    verdict_.tensors += static_cast<std::int64_t>(reader.entries().size());
    if (damage) find_altered_tensors(file.name, reader);
    return true;
  }

  void find_cut_tensors(const FileRecord& file, std::uint64_t bytes) {
    const std::vector<safetensors::Entry> entries = entries_of_cut_file(verdict_.path / file.name, file.bytes);
    if (entries.empty()) return;
    const std::uint64_t data = file.bytes - entries.back().end, left = bytes < data ? 0 : bytes - data;
    for (const safetensors::Entry& entry : entries)
      if (entry.end > left)
        add(file.name, entry.name,
            entry.begin >= left ? "it does not exist"
                                : fmt::format("it has only {} of its {} bytes", left - entry.begin, entry.bytes()));
  }

  /// Locates the damage, which a checksum of a whole file cannot: a trainer never writes values that are not finite.
  void find_altered_tensors(const std::string& file, const safetensors::Reader& reader) {
    for (const safetensors::Entry& entry : reader.entries()) {
      if (entry.dtype != safetensors::Dtype::kF32 && entry.dtype != safetensors::Dtype::kBF16) continue;
      std::int64_t wrong = 0;
      for_each_block(reader, entry, [&](std::span<const float> values, std::span<const std::byte>) {
        wrong += std::count_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
      });
      if (wrong) add(file, entry.name, fmt::format("{} of its values {} not finite", wrong, wrong == 1 ? "is" : "are"));
    }
  }

  void find_strangers(const std::vector<FileRecord>& files) {
    std::error_code error;
    for (fs::directory_iterator it(verdict_.path, error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename().string();
      if (name != "manifest.json" &&
          std::none_of(files.begin(), files.end(), [&](const FileRecord& file) { return file.name == name; }))
        verdict_.strangers.push_back(name);
    }
    std::sort(verdict_.strangers.begin(), verdict_.strangers.end());
  }

  void check_state() {
    try {
      state_ = read_train_state(verdict_.path);
    } catch (const Failure& failure) {
      add("state.json", "", failure.what());
      return;
    }
    // Also of a path that ends with a slash.
    const std::string name =
        disk::absolute(verdict_.path / "", Exit::checkpoint).lexically_normal().parent_path().filename().string();
    if (name.starts_with(kCheckpointPrefix) && name != checkpoint_name(state_->step))
      add("state.json", "", fmt::format("it is of step {}, but the folder is '{}'", state_->step, name));
  }

  /// The tensors that a checkpoint of its spec has.
  std::optional<Expected> check_spec() {
    try {
      const spec::Values values = read_spec(verdict_.path);
      if (state_ && spec::model_fingerprint(values.spec) != state_->model_fingerprint) {
        add("spec.yaml", "", "its model does not match the fingerprint in state.json");
        return {};
      }
      return expected_tensors(values.spec, buffers_(values.spec));
    } catch (const Failure& failure) {
      add("spec.yaml", "", failure.what());
      return {};
    }
  }

  void check_tensors(const Expected& expected, const Readers& readers) {
    std::map<std::string, std::map<std::string, const CheckpointTensor*>> found;  // by moment, then name
    const std::vector<CheckpointTensor> tensors = tensors_of(readers, expected.at(""));
    for (const CheckpointTensor& tensor : tensors)
      if (!found[tensor.moment].emplace(tensor.name(), &tensor).second)
        add(tensor.file(), tensor.name(), "it is in two files");
    const bool moments = found.size() > found.count("");
    for (const auto& [moment, specs] : expected)
      if (moment.empty() || moments)
        for (const safetensors::TensorSpec& spec : specs) check_tensor(moment, spec, found[moment]);
    for (const auto& [moment, rest] : found)
      for (const auto& [name, tensor] : rest) add(tensor->file(), name, "the spec's model has no such tensor");
    if (!moments) add("optimizer.safetensors", "", "the optimizer's state is missing");
    check_index(tensors);
  }

  /// Takes it from those that were found.
  void check_tensor(const std::string& moment, const safetensors::TensorSpec& spec,
                    std::map<std::string, const CheckpointTensor*>& found) {
    const auto node = found.extract(spec.name);
    if (node.empty())
      return add(moment.empty() ? "model.safetensors" : "optimizer.safetensors", spec.name, "no file has it");
    const CheckpointTensor& tensor = *node.mapped();
    if (tensor.entry->dtype == spec.dtype && tensor.entry->shape == spec.shape) return;
    add(tensor.file(), tensor.name(),
        fmt::format("it is {} {}, but the spec has {} {}", safetensors::dtype_name(tensor.entry->dtype),
                    shape_text(tensor.entry->shape), safetensors::dtype_name(spec.dtype), shape_text(spec.shape)));
  }

  /// The index that loaders of several files go by.
  void check_index(const std::vector<CheckpointTensor>& tensors) {
    const std::string name = kModelIndex;
    std::set<std::string> weight_files;
    for (const CheckpointTensor& tensor : tensors)
      if (tensor.moment.empty()) weight_files.insert(tensor.file());
    if (weight_files.size() < 2) return;
    try {
      const nlohmann::json index = nlohmann::json::parse(read_small_file(verdict_.path / name, 64u << 20));
      for (const CheckpointTensor& tensor : tensors)
        if (tensor.moment.empty() && index.at("weight_map").value(tensor.name(), "") != tensor.file())
          add(name, tensor.name(), fmt::format("it is in {}, but the index names another file", tensor.file()));
    } catch (const Failure& failure) {
      add(name, "", failure.what());
    } catch (const nlohmann::json::exception&) {
      add(name, "", "it is not an index of tensors");
    }
  }

  const BuffersOf buffers_;
  DamageReport verdict_;
  std::optional<TrainState> state_;
};

}  // namespace

std::vector<SavedBuffer> buffers_of(const spec::Spec& spec) {
  return saved_buffers(graph::build_llama(spec, graph::kinds_of(spec), 1).groups, spec.optimizer.kind);
}

DamageReport inspect_checkpoint(const fs::path& checkpoint, BuffersOf buffers) {
  DamageReport verdict = Verification(checkpoint, buffers).run();
  verdict.removed = !verdict.damage.empty() && was_removed(checkpoint);
  return verdict;
}

std::string damage_text(const DamageReport& verdict) {
  if (verdict.damage.empty())
    return fmt::format("{}: complete ({} file{}, {}, {} tensor{})\n", verdict.path.string(), verdict.files,
                       plural(verdict.files), report::human_bytes(static_cast<double>(verdict.bytes)),
                       format_count(verdict.tensors), plural(verdict.tensors));
  std::string text = fmt::format("{}: damaged\n", verdict.path.string());
  std::map<std::string, std::int64_t> tensors;  // named so far, by file
  for (const Damage& damage : verdict.damage) {
    if (damage.tensor.empty())
      text += fmt::format("  {}: {}\n", damage.file, damage.what);
    else if (++tensors[damage.file] <= kTensorsShown)
      text += fmt::format("  {}: tensor {}: {}\n", damage.file, damage.tensor, damage.what);
  }
  for (const auto& [file, count] : tensors)
    if (count > kTensorsShown)
      text += fmt::format("  {}: {} more tensor{} (--json lists all)\n", file, count - kTensorsShown,
                          plural(count - kTensorsShown));
  return text;
}

nlohmann::ordered_json damage_json(const DamageReport& verdict) {
  using Json = nlohmann::ordered_json;
  Json damage = Json::array();
  for (const Damage& one : verdict.damage) {
    Json entry = {{"file", one.file}, {"what", one.what}};
    if (!one.tensor.empty()) entry["tensor"] = one.tensor;
    damage.push_back(std::move(entry));
  }
  return {{"path", verdict.path.string()}, {"complete", verdict.damage.empty()}, {"files", verdict.files},
          {"bytes", verdict.bytes},        {"tensors", verdict.tensors},         {"damage", std::move(damage)},
          {"strangers", verdict.strangers}};
}

}  // namespace llmc::checkpoints
