#include "compiler/tools/checkpoints/contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

#include "checkpoint/manifest.h"
#include "checkpoint/nearby.h"
#include "checkpoint/parameter_stream.h"
#include "checkpoint/state_formats.h"
#include "checkpoint/stored_numbers.h"
#include "compiler/graph/llama.h"
#include "compiler/plan/parameters.h"
#include "device/dynamic_map.h"
#include "error.h"
#include "files/disk.h"
#include "spec/fingerprint.h"

namespace llmc::checkpoints {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void refuse(const std::string& what) { throw Failure(Exit::checkpoint, what); }

}  // namespace

std::int64_t CheckpointTensor::elements() const {
  return static_cast<std::int64_t>(entry->bytes()) / safetensors::dtype_bytes(entry->dtype);
}

TensorNumbers::TensorNumbers(const CheckpointTensor& tensor, std::span<const CheckpointTensor> tensors)
    : tensor_(tensor) {
  const std::optional<DType> codes = codes_named(tensor.moment);
  if (!codes || tensor.entry->dtype != stored_type(*codes)) return;
  const auto scales = std::ranges::find(tensors, tensor.moment + kScaleSuffix + "." + tensor.parameter,
                                        [](const CheckpointTensor& t) { return t.name(); });
  if (scales == tensors.end() || scales->entry->dtype != safetensors::Dtype::kF32 ||
      scales->elements() != in_blocks(tensor.elements(), kStateBlock))
    return;
  codes_ = codes;
  scales_ = read_scales(*scales->reader, *scales->entry);
}

void TensorNumbers::next(std::span<float> numbers, std::vector<std::byte>& bytes) {
  const auto size = static_cast<std::uint64_t>(safetensors::dtype_bytes(tensor_.entry->dtype));
  bytes.resize(numbers.size() * size);
  tensor_.reader->read(*tensor_.entry, static_cast<std::uint64_t>(at_) * size, bytes.data(), bytes.size());
  const auto count = static_cast<std::int64_t>(numbers.size());
  if (codes_)
    dequantise(*codes_, bytes.data(), scales_, at_, count, numbers.data());
  else
    widen(tensor_.entry->dtype, bytes, numbers);
  at_ += count;
}

bool holds_tensors(const std::string& file) { return file.ends_with(".safetensors"); }
bool holds_weights(const std::string& file) { return holds_tensors(file) && file.starts_with("model"); }

Expected expected_tensors(const spec::Spec& spec, std::span<const SavedBuffer> buffers) {
  const graph::Graph graph = graph::build_llama(spec, graph::kinds_of(spec), 1);
  Expected expected;
  for (const plan::Slice& slice : plan::lay_out_parameters(graph, spec).slices)
    for (const SavedBuffer& buffer : buffers) {
      // A shape does not depend on where it lies.
      const ParameterInfo p{slice.name.c_str(), 0,           slice.rows, slice.cols, slice.cols,
                            slice.matrix,       slice.group, 0,          0,          0};
      if (!buffer.covers(p)) continue;
      expected[buffer.prefix.substr(0, buffer.prefix.find('.'))].push_back(
          tensor_spec(parameter_in(buffer, p), buffer.prefix, buffer.dtype));
    }
  return expected;
}

std::vector<safetensors::TensorSpec> expected_weights(const spec::Spec& spec) {
  return std::move(expected_tensors(spec, std::vector<SavedBuffer>(1)).at(""));
}

std::vector<CheckpointTensor> tensors_of(const std::vector<std::unique_ptr<safetensors::Reader>>& readers,
                                         const std::vector<safetensors::TensorSpec>& weights) {
  std::map<std::string, std::size_t> places;
  for (const safetensors::TensorSpec& weight : weights) places.emplace(weight.name, places.size());
  const auto place = [&](const CheckpointTensor& tensor) {
    const auto found = places.find(tensor.parameter);
    return found == places.end() ? places.size() : found->second;
  };
  std::vector<CheckpointTensor> tensors;
  for (const auto& reader : readers) {
    const bool of_weights = holds_weights(reader->path().filename().string());
    for (const safetensors::Entry& entry : reader->entries()) {
      const std::size_t dot = of_weights ? std::string::npos : entry.name.find('.');
      if (dot == std::string::npos)
        tensors.push_back({entry.name, of_weights ? "" : entry.name, reader.get(), &entry});
      else
        tensors.push_back({entry.name.substr(dot + 1), entry.name.substr(0, dot), reader.get(), &entry});
    }
  }
  std::sort(tensors.begin(), tensors.end(), [&](const CheckpointTensor& a, const CheckpointTensor& b) {
    return std::tuple(a.moment, place(a), a.parameter) < std::tuple(b.moment, place(b), b.parameter);
  });
  return tensors;
}

fs::path find_checkpoint(const fs::path& named, const Log& log) {
  if (!disk::is_folder(named, Exit::checkpoint))
    refuse(
        fmt::format("there is no checkpoint '{}'{}. Give a checkpoint such as RUN/checkpoints/step-00000100, or a run "
                    "folder for its newest one",
                    named.string(), checkpoints_near(named)));
  if (disk::is_folder(checkpoints_directory(named), Exit::checkpoint)) {
    if (const auto newest = find_latest_checkpoint(named, log, Depth::sizes)) return newest->path;
    refuse(fmt::format("the run '{}' has no complete checkpoint", named.string()));
  }
  if (!has_manifest(named) && !disk::exists(named / "state.json", Exit::checkpoint))
    refuse(fmt::format(
        "'{}' is {}{}. Give a checkpoint such as RUN/checkpoints/step-00000100, or a run folder for its newest one",
        named.string(),
        disk::exists(named / "config.json", Exit::checkpoint)
            ? "a Hugging Face model, not a checkpoint that a trainer saved"
            : "neither a run folder nor a checkpoint that a trainer saved",
        checkpoints_near(named / "step")));
  return named;
}

void with_checkpoints(const std::vector<fs::path>& named, const Log& log,
                      const std::function<void(const std::vector<fs::path>&)>& use) {
  constexpr int kMostTries = 10;  // a run may save more often than its checkpoint can be read
  for (int tries = 1;; ++tries) {
    std::vector<fs::path> found;
    for (const fs::path& name : named) found.push_back(find_checkpoint(name, log));
    try {
      return use(found);
    } catch (const Failure&) {
      bool has_newer = false;
      for (std::size_t i = 0; i < named.size(); ++i) has_newer |= found[i] != named[i] && was_removed(found[i]);
      if (!has_newer || tries == kMostTries) throw;
    }
  }
}

spec::Values read_spec(const fs::path& checkpoint) {
  const fs::path path = checkpoint / "spec.yaml";
  try {
    return spec::read_values(read_checkpoint_spec(checkpoint), path.string());
  } catch (const std::invalid_argument& error) {
    refuse(fmt::format("'{}' is not a spec as a trainer writes it to a checkpoint: {}", path.string(), error.what()));
  }
}

Contents open(const fs::path& checkpoint) {
  if (const auto damage = find_damage(checkpoint, Depth::sizes))
    refuse(fmt::format("checkpoint '{}' is damaged: {}. Run `llmc checkpoint verify` for details", checkpoint.string(),
                       *damage));
  Contents contents{.path = checkpoint,
                    .state = read_train_state(checkpoint),
                    .values = read_spec(checkpoint),
                    .files = read_manifest(checkpoint),
                    .readers = {},
                    .tensors = {}};
  if (spec::model_fingerprint(contents.values.spec) != contents.state.model_fingerprint)
    refuse(fmt::format(
        "checkpoint '{}' is damaged: the model of its spec.yaml does not match the fingerprint in state.json",
        checkpoint.string()));
  for (const FileRecord& file : contents.files)
    if (holds_tensors(file.name))
      contents.readers.push_back(std::make_unique<safetensors::Reader>(checkpoint / file.name));
  contents.tensors = tensors_of(contents.readers, expected_weights(contents.values.spec));
  return contents;
}

}  // namespace llmc::checkpoints
