#include "run/trace.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>

#include "checkpoint/manifest.h"
#include "error.h"
#include "files/disk.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& directory, std::int64_t step) { return directory / fmt::format("step-{}", step); }

/// A resumed run traces the steps after its checkpoint again. Those of a run that begins are of another one.
void check_step(const fs::path& folder, std::int64_t first) {
  if (!disk::exists(folder, Exit::usage) || (first > 0 && disk::is_file(folder / "summary.json", Exit::usage))) return;
  throw Failure(Exit::checkpoint,
                fmt::format("'{}' exists already. Give an empty or new directory to --trace", folder.string()));
}

}  // namespace

void check_trace(const fs::path& directory, std::int64_t first, std::int64_t stop) {
  constexpr std::string_view kPrefix = "step-";
  std::error_code error;  // a directory that cannot be listed is refused by TraceWriter
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    const std::int64_t step = name.starts_with(kPrefix) ? std::atoll(name.c_str() + kPrefix.size()) : -1;
    if (step >= first && step < stop && at->path() == folder_of(directory, step)) check_step(at->path(), first);
  }
}

TraceWriter::TraceWriter(const fs::path& directory, std::span<const ParameterInfo> parameters, std::int64_t micro_batch,
                         std::int64_t sequence_length, std::int64_t first)
    : directory_(directory),
      stored_(stored_parameters(parameters)),
      micro_batch_(micro_batch),
      sequence_length_(sequence_length),
      first_(first) {
  if (directory_.empty()) return;
  make_directories(directory_, {Exit::usage, "--trace"});
  check_can_write(directory_ / "summary.json", {Exit::usage, "--trace"});
}

void TraceWriter::begin_step(std::int64_t step, const FlatSource& masters) {
  if (directory_.empty()) return write_parameters({}, stored_, masters);
  const fs::path folder = folder_of(directory_, step);
  if (!written_.contains(step)) check_step(folder, first_);
  inputs_.clear();
  targets_.clear();
  step_.reset();
  step_ = std::make_unique<AtomicDirectory>(directory_, folder.filename().string());
  number_ = step;
  write_parameters(step_->path() / "weights.safetensors", stored_, masters);
}

void TraceWriter::add_micro_batch(std::span<const std::int32_t> inputs, std::span<const std::int32_t> targets) {
  if (directory_.empty()) return;
  const std::size_t tokens = static_cast<std::size_t>(micro_batch_ * sequence_length_);
  if (inputs.size() != tokens || targets.size() != tokens)
    throw Failure(Exit::internal, "a traced micro-batch has the wrong number of tokens");
  inputs_.insert(inputs_.end(), inputs.begin(), inputs.end());
  targets_.insert(targets_.end(), targets.begin(), targets.end());
}

void TraceWriter::add_gradients(const FlatSource& gradients) {
  if (directory_.empty()) return write_parameters({}, stored_, gradients);
  if (!step_) throw Failure(Exit::internal, "add_gradients of a trace without begin_step");
  write_parameters(step_->path() / "gradients.safetensors", stored_, gradients);
}

void TraceWriter::finish_step(const StepResults& results, std::span<const Figure> figures, float lr) {
  if (directory_.empty()) return;
  if (!step_) throw Failure(Exit::internal, "finish_step of a trace without begin_step");
  const std::int64_t micro_batches = static_cast<std::int64_t>(inputs_.size()) / (micro_batch_ * sequence_length_);
  const std::vector<std::int64_t> shape = {micro_batches, micro_batch_, sequence_length_};
  const safetensors::TensorSpec specs[] = {{"inputs", safetensors::Dtype::kI32, shape},
                                           {"targets", safetensors::Dtype::kI32, shape}};
  safetensors::Writer tokens(step_->path() / "tokens.safetensors", specs);
  for (const safetensors::Entry& entry : tokens.entries())
    tokens.append((entry.name == "inputs" ? inputs_ : targets_).data(), entry.bytes());
  tokens.finish();
  write_small_file(step_->path(), "summary.json", format_summary(results, figures, lr));
  step_->commit();
  step_.reset();
  written_.insert(number_);
}

std::string format_summary(const StepResults& results, std::span<const Figure> figures, float lr) {
  nlohmann::ordered_json document = {
      {"loss", results.loss}, {"grad_norm", static_cast<double>(results.grad_norm)}, {"lr", static_cast<double>(lr)}};
  for (const Figure& figure : figures) document[figure.name] = figure.value;
  return document.dump() + "\n";
}

}  // namespace llmc
