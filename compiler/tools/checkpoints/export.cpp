#include "compiler/tools/checkpoints/export.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "checkpoint/manifest.h"
#include "checkpoint/shards.h"
#include "checkpoint/stored_numbers.h"
#include "compiler/spec/huggingface.h"
#include "compiler/tools/checkpoints/average.h"
#include "compiler/tools/checkpoints/blocks.h"
#include "compiler/tools/checkpoints/contents.h"
#include "compiler/tools/checkpoints/damage.h"
#include "compiler/tools/checkpoints/export_tokenizer.h"
#include "compiler/tools/checkpoints/listing.h"
#include "compiler/tools/dataset/pending_folder.h"
#include "device/math.h"
#include "device/types.h"
#include "error.h"
#include "files/disk.h"
#include "run/run_folder.h"
#include "spec/huggingface/families.h"
#include "spec/model_config.h"
#include "spec/print.h"
#include "spec/source.h"
#include "text/console.h"

namespace llmc::checkpoints {

namespace fs = std::filesystem;

namespace {

constexpr Writer kExportWriter{Exit::checkpoint, "-o"};

/// Opens a checkpoint that inspect_checkpoint() accepts: every tensor of the model is there.
Contents open_sound(const fs::path& path) {
  const DamageReport verdict = inspect_checkpoint(path);
  if (verdict.removed)
    throw Failure(Exit::checkpoint,
                  fmt::format("checkpoint '{}' was removed while it was read. Export another one", path.string()));
  if (!verdict.damage.empty()) {
    const Damage& first = verdict.damage.front();
    throw Failure(Exit::checkpoint,
                  fmt::format("checkpoint '{}' is damaged: {}: {}{}. Export another one", path.string(), first.file,
                              first.tensor.empty() ? "" : "tensor " + first.tensor + ": ", first.what));
  }
  return open(path);
}

/// One weight of the exported model, as each checkpoint has it.
using Weight = std::vector<CheckpointTensor>;

/// A tensor of the exported files: weights below each other.
struct ExportedTensor {
  safetensors::TensorSpec spec;
  std::vector<const Weight*> parts;
};

/// Tensors as the files of the model's family have them, in the order of the forward pass.
std::vector<ExportedTensor> exported_tensors(const std::vector<Weight>& weights, const WeightForm& form, DType dtype) {
  constexpr std::string_view kGate = ".mlp.gate_proj.", kUp = ".mlp.up_proj.";
  const safetensors::Dtype stored = stored_type(dtype);
  std::vector<ExportedTensor> tensors;
  for (const Weight& weight : weights) {
    const safetensors::Entry& entry = *weight.front().entry;
    const std::size_t up = entry.name.find(kUp);
    if (form.fused_mlp && up != std::string::npos) {  // the gate's tensor is the last one
      tensors.back().spec.shape[0] += entry.shape[0];
      tensors.back().parts.push_back(&weight);
      continue;
    }
    std::string name = form.name_of(entry.name);
    if (const std::size_t gate = name.find(kGate); form.fused_mlp && gate != std::string::npos)
      name.replace(gate, kGate.size(), ".mlp.gate_up_proj.");
    tensors.push_back({{name, stored, entry.shape}, {&weight}});
  }
  return tensors;
}

template <class T>
void append_rounded(safetensors::Writer& writer, std::span<const float> values) {
  std::vector<T> rounded(values.size());
  std::ranges::transform(values, rounded.begin(), [](float value) { return from_float<T>(value); });
  writer.append(rounded.data(), rounded.size() * sizeof(T));
}

/// Refuses a number that fp16 would have as infinity.
void check_range_of_fp16(const std::string& name, std::span<const float> values) {
  const auto past = std::ranges::find_if(
      values, [](float value) { return std::isfinite(value) && !std::isfinite(to_float(from_float<fp16>(value))); });
  if (past != values.end())
    throw Failure(Exit::checkpoint, fmt::format("tensor {} has the number {}, and fp16 ends at 65504. Write --dtype "
                                                "fp32 or --dtype bf16",
                                                name, *past));
}

void append(safetensors::Writer& writer, const Weight& weight, const WeightForm& form, DType dtype) {
  const safetensors::Entry& entry = *weight.front().entry;
  const std::int64_t columns = entry.shape.size() > 1 ? entry.shape[1] : 1;
  const bool mirrors = form.mirrors(entry.name);
  std::vector<float> mirrored;
  std::int64_t at = 0;
  const auto write = [&](std::span<const float> values) {
    if (mirrors) {
      mirrored.assign(values.begin(), values.end());
      for (float& value : mirrored)
        if (form.mirrors_row(at++ / columns)) value = -value;
      values = mirrored;
    }
    if (dtype == DType::f32) return writer.append(values.data(), values.size_bytes());
    if (dtype == DType::f16) {
      check_range_of_fp16(entry.name, values);
      return append_rounded<fp16>(writer, values);
    }
    append_rounded<bf16>(writer, values);
  };
  if (weight.size() > 1) return for_each_mean(weight, write);
  for_each_block(*weight.front().reader, *weight.front().entry,
                 [&](std::span<const float> values, std::span<const std::byte>) { write(values); });
}

/// The weights of checkpoints of one model, in the order of the forward pass.
std::vector<Weight> weights_of_all(std::span<const Contents> checkpoints) {
  std::vector<Weight> weights;
  for (const Contents& contents : checkpoints) {
    std::size_t i = 0;
    for (CheckpointTensor& tensor : weights_of(contents)) {
      if (&contents == &checkpoints.front()) weights.emplace_back();
      weights.at(i++).push_back(std::move(tensor));
    }
  }
  return weights;
}

/// Writes the weights into `folder`, in files of at most `shard_bytes`, in the order of the forward pass.
void write_weights(const fs::path& folder, const std::vector<Weight>& weights, DType dtype, std::int64_t shard_bytes,
                   const WeightForm& form, Exported& result) {
  const std::vector<ExportedTensor> tensors = exported_tensors(weights, form, dtype);
  std::vector<std::int64_t> sizes;
  for (const ExportedTensor& tensor : tensors) {
    std::int64_t elements = 0;
    for (const Weight* part : tensor.parts) elements += part->front().elements();
    result.parameters += elements;
    sizes.push_back(bytes_of(dtype, elements));
    result.bytes += sizes.back();
  }
  const std::vector<std::size_t> counts = split_tensors(sizes, shard_bytes);
  std::map<std::string, std::string> files;
  std::span<const ExportedTensor> rest = tensors;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const std::string file = shard_name("model", i, counts.size());
    std::vector<safetensors::TensorSpec> specs;
    std::map<std::string, const ExportedTensor*> by_name;
    for (const ExportedTensor& tensor : rest.first(counts[i])) {
      specs.push_back(tensor.spec);
      by_name[tensor.spec.name] = &tensor;
      files[tensor.spec.name] = file;
    }
    safetensors::Writer writer(folder / file, specs, kExportWriter);
    for (const safetensors::Entry& entry : writer.entries())
      for (const Weight* part : by_name.at(entry.name)->parts) append(writer, *part, form, dtype);
    writer.finish();
    rest = rest.subspan(counts[i]);
  }
  result.files = static_cast<std::int64_t>(counts.size());
  if (counts.size() > 1) write_small_file(folder, kModelIndex, model_index(files, result.bytes), kExportWriter);
}

std::string generation_config(const std::optional<std::int32_t>& eos) {
  // No max_length: it counts the prompt, so programs that apply it write nothing after a long prompt.
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  if (eos) {
    config["eos_token_id"] = *eos;
    config["pad_token_id"] = *eos;
  }
  return config.dump(2) + "\n";
}

/// Values of a row of the model card, of each checkpoint in order.
template <class Value>
std::string list(std::span<const Contents> checkpoints, Value value) {
  std::string text;
  for (const Contents& contents : checkpoints) text += (text.empty() ? "" : ", ") + value(contents);
  return text;
}

std::string model_card(const std::string& name, std::span<const Contents> checkpoints, const Exported& exported,
                       const std::optional<ModelTokenizer>& tokenizer) {
  const Contents& contents = checkpoints.front();
  const bool mean = checkpoints.size() > 1;
  const spec::Spec& spec = contents.values.spec;
  const fs::path run = mean ? fs::path() : run_of(contents.path);  // the loss of a mean is not known
  const std::optional<double> loss = run.empty() ? std::nullopt : validation_loss(run, contents.state.step);
  const std::string unloaded = spec::not_loaded(spec.model);
  std::string text = fmt::format(
      R"(---
library_name: transformers
pipeline_tag: text-generation
---

# {}

A {} model, trained by llmc.{}

| | |
|---|---|
| parameters | {} |
| weights | {} |
| steps | {} |
| tokens trained on | {} |
| context | {} tokens |
)",
      name, spec::family_of(spec.model)->title,
      mean ? fmt::format(" Its weights are the mean of {} checkpoints.", checkpoints.size()) : "",
      format_count(exported.parameters),
      exported.dtype != DType::f32
          ? fmt::format("{}, rounded to nearest, ties to even, from the trained fp32", name_of(exported.dtype))
      : mean ? "fp32"
             : "fp32, as they were trained",
      list(checkpoints, [](const Contents& of) { return format_count(of.state.step); }),
      list(checkpoints,
           [](const Contents& of) { return format_count(static_cast<std::int64_t>(tokens_of(of.state.position))); }),
      format_count(spec.batch.sequence_length));
  if (loss) text += fmt::format("| validation loss | {:.4f} nats a token |\n", *loss);
  text += tokenizer ? fmt::format("| tokenizer | {}, {} tokens{} |\n", tokenizer->name, format_count(tokenizer->tokens),
                                  tokenizer->changed ? "; adds none around a text, as in training" : "")
                    : "| tokenizer | none: the model takes token ids |\n";
  if (!unloaded.empty()) text += fmt::format("\nIts {}. Version 4 does.\n", unloaded);
  text += R"(
```python
from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained("PATH/OF/THIS/FOLDER")
```

## Spec

The resolved spec of the run that trained the )";
  text += mean ? "first checkpoint" : "weights";
  text += R"(. `config.json` has the model.

```yaml
)";
  text += spec::to_yaml(contents.values, [](const spec::Key& key) { return !key.aside; });
  return text + "```\n";
}

}  // namespace

namespace {

/// Refuses a folder in which a trainer keeps checkpoints, and removes what it no longer keeps.
void check_out(const fs::path& out) {
  const fs::path target = disk::weakly_canonical(out, Exit::checkpoint);
  for (fs::path folder = target; folder.has_relative_path(); folder = folder.parent_path()) {
    const fs::path run = folder.filename() == "checkpoints" ? folder.parent_path() : fs::path();
    const bool checkpoint = has_manifest(folder);
    if (checkpoint || (!run.empty() && (RunFolder::holds_run(run) || !list_checkpoints(run).empty())))
      throw Failure(
          Exit::checkpoint,
          fmt::format(
              "-o '{}' is in {} '{}', whose files belong to the trainer. Choose another folder, such as -o {}-model",
              out.string(), checkpoint ? "the checkpoint" : "a run's", folder.string(),
              spec::printable((target / "").parent_path().filename().string())));  // also of a path ending in a slash
  }
}

}  // namespace

Exported export_model(const ExportOptions& options) {
  check_out(options.out);
  data::PendingFolder folder(options.out, kExportWriter, [](const fs::path& entry) {
    throw Failure(Exit::checkpoint,
                  fmt::format("'{}' is not empty: it has {}. Choose another -o", entry.parent_path().string(),
                              spec::in_quotes(entry.filename().string())));
  });
  std::vector<Contents> checkpoints;
  checkpoints.push_back(open_sound(options.checkpoint));
  for (const fs::path& other : options.averaged) checkpoints.push_back(open_sound(other));
  check_averaged(checkpoints);
  const auto tokenized =
      std::ranges::find_if(checkpoints, [](const Contents& of) { return !of.state.tokenizer.empty(); });
  const FoundTokenizer found =
      find_tokenizer(tokenized == checkpoints.end() ? checkpoints.front() : *tokenized, options.tokenizer);
  const spec::Spec& spec = checkpoints.front().values.spec;
  if (const std::string why = spec::no_family(spec.model); !why.empty())
    throw Failure(Exit::checkpoint, fmt::format("checkpoint '{}' cannot be exported: {}. Train from a spec with other "
                                                "values of these keys, or load it with llmc",
                                                options.checkpoint.string(), why));
  Exported exported{.dtype = options.dtype.value_or(spec.compute),
                    .tokenizer = "",
                    .looked_for = found.looked_for,
                    .not_loaded = spec::not_loaded(spec.model)};
  write_weights(folder.path(), weights_of_all(checkpoints), exported.dtype, options.shard_bytes,
                spec::weight_form(*spec::family_of(spec.model), spec.model), exported);

  const auto write = [&](const char* name, const std::string& text) {
    write_small_file(folder.path(), name, text, kExportWriter);
  };
  write("config.json", spec::config_json(spec, {.dtype = exported.dtype, .eos = found.eos}));
  write("generation_config.json", generation_config(found.eos));
  if (found.tokenizer) {
    exported.tokenizer = found.tokenizer->file.string();
    exported.tokenizer_changed = found.tokenizer->changed;
    write(found.tokenizer->name, found.tokenizer->model);
    write("tokenizer_config.json", found.tokenizer->config);
    if (!found.tokenizer->json.empty()) write("tokenizer.json", found.tokenizer->json);
  }
  const std::string name =
      disk::absolute(options.out / "", kExportWriter.exit).lexically_normal().parent_path().filename().string();
  write("README.md", model_card(spec::printable(name), checkpoints, exported, found.tokenizer));
  folder.publish();
  return exported;
}

}  // namespace llmc::checkpoints
