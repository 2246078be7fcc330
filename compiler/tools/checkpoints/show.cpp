#include "compiler/tools/checkpoints/show.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "checkpoint/parameter_stream.h"
#include "compiler/tools/report/plan_report.h"
#include "text/console.h"
#include "text/plural.h"

namespace llmc::checkpoints {

namespace {

struct Sums {
  std::int64_t bytes = 0, parameters = 0, weights = 0;  // bytes: of the files; weights: tensors of them
  std::set<std::string> moments;
  std::size_t longest = 0;  // name of a parameter
};

Sums sums_of(const Contents& contents) {
  Sums sums;
  for (const FileRecord& file : contents.files) sums.bytes += static_cast<std::int64_t>(file.bytes);
  for (const CheckpointTensor& tensor : contents.tensors) {
    if (!tensor.moment.empty()) {
      sums.moments.insert(tensor.moment);
      continue;
    }
    ++sums.weights;
    sums.parameters += tensor.elements();
    sums.longest = std::max(sums.longest, tensor.parameter.size());
  }
  return sums;
}

std::string or_none(const std::string& text) { return text.empty() ? "none" : text; }

}  // namespace

std::string show_text(const Contents& contents) {
  const Sums sums = sums_of(contents);
  const TrainState& state = contents.state;
  const auto files = static_cast<std::int64_t>(contents.files.size());
  const auto line = [](const char* what, const std::string& text) { return fmt::format("  {:<11} {}\n", what, text); };
  std::string text = contents.path.string() + "\n";
  text += line("step", format_count(state.step));
  text +=
      line("tokens", fmt::format("{}, in epoch {}", format_count(static_cast<std::int64_t>(tokens_of(state.position))),
                                 epoch_of(state.position)));
  text += line("model", state.model_fingerprint);
  text += line("data", or_none(state.data_fingerprint));
  text += line("tokenizer", or_none(state.tokenizer));
  text += line("seeds", fmt::format("seed {}, data.seed {}", state.seed, state.data_seed));
  text += line("files", fmt::format("{} file{}, {}", files, plural(files),
                                    report::human_bytes(static_cast<double>(sums.bytes))));
  text += line("parameters", fmt::format("{} in {} tensor{}", format_count(sums.parameters), format_count(sums.weights),
                                         plural(sums.weights)));
  text += line("moments", sums.moments.empty() ? "none" : fmt::format("{}", fmt::join(sums.moments, ", ")));
  text += fmt::format("\n{:<{}}  {:<16} dtype  file\n", "tensor", sums.longest, "shape");
  for (const CheckpointTensor& tensor : contents.tensors)
    if (tensor.moment.empty())
      text += fmt::format("{:<{}}  {:<16} {:<5}  {}\n", tensor.parameter, sums.longest, shape_text(tensor.entry->shape),
                          safetensors::dtype_name(tensor.entry->dtype), tensor.file());
  return text;
}

nlohmann::ordered_json show_json(const Contents& contents) {
  using Json = nlohmann::ordered_json;
  const Sums sums = sums_of(contents);
  const TrainState& state = contents.state;
  Json files = Json::array(), tensors = Json::array();
  for (const FileRecord& file : contents.files)
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"xxh3", file.xxh3}});
  for (const CheckpointTensor& tensor : contents.tensors)
    tensors.push_back({{"name", tensor.name()},
                       {"dtype", safetensors::dtype_name(tensor.entry->dtype)},
                       {"shape", tensor.entry->shape},
                       {"file", tensor.file()}});
  return {{"path", contents.path.string()},      {"step", state.step},
          {"tokens", tokens_of(state.position)}, {"epoch", epoch_of(state.position)},
          {"model", state.model_fingerprint},    {"data", state.data_fingerprint},
          {"tokenizer", state.tokenizer},        {"seed", state.seed},
          {"data_seed", state.data_seed},        {"bytes", sums.bytes},
          {"parameters", sums.parameters},       {"moments", sums.moments},
          {"files", std::move(files)},           {"tensors", std::move(tensors)}};
}

std::string printed(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace llmc::checkpoints
