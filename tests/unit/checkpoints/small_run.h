// Saves checkpoints of a small model as a trainer does.
#pragma once

#include <cmath>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "compiler/graph/llama.h"
#include "compiler/plan/parameters.h"
#include "compiler/spec/huggingface.h"
#include "run/run_folder.h"
#include "small_spec.h"
#include "small_state.h"
#include "spec/fingerprint.h"
#include "spec/print.h"

namespace llmc::checkpoints {

/// State of a model with the small spec: all weights and moments are distinct.
class SmallModel {
 public:
  explicit SmallModel(const std::vector<std::string>& overrides = {}) : resolved_(small_spec(overrides)) {
    const graph::Graph graph = graph::build_llama(resolved_.spec, graph::kinds_of(resolved_.spec), 1);
    const plan::ParameterLayout layout = plan::lay_out_parameters(graph, resolved_.spec);
    for (const plan::Slice& slice : layout.slices) {
      names_.push_back(slice.name);
      parameters_.push_back({names_.back().c_str(), slice.offset, slice.rows, slice.cols, slice.pitch, slice.matrix,
                             slice.group, 1, 0, parameters_.size()});
    }
    for (std::vector<float>& buffer : buffers_) buffer.resize(static_cast<std::size_t>(layout.elements));
    for (std::size_t kind = 0; kind < 3; ++kind)
      for (const ParameterInfo& p : parameters_)
        for (std::int64_t i = 0; i < p.rows * p.cols; ++i)
          at(kind, p, i) = std::sin(static_cast<float>(kind * 1000) + static_cast<float>(p.offset + i));
  }

  /// Element `i`, without padding, of a buffer: 0 weights, 1 and 2 moments.
  float& at(std::size_t kind, const ParameterInfo& p, std::int64_t i) {
    return buffers_[kind][static_cast<std::size_t>(p.offset + i / p.cols * p.pitch + i % p.cols)];
  }
  const ParameterInfo& parameter(const std::string& name) const {
    for (const ParameterInfo& p : parameters_)
      if (p.name == name) return p;
    throw std::out_of_range(name);
  }
  float& weight(const std::string& name, std::int64_t i) { return at(kWeights, parameter(name), i); }
  const spec::Spec& spec() const { return resolved_.spec; }
  std::size_t tensors() const { return parameters_.size(); }
  std::span<const ParameterInfo> parameters() const { return parameters_; }
  std::vector<float>& weights() { return buffers_[kWeights]; }

  /// The path of the checkpoint.
  std::filesystem::path save(const std::filesystem::path& run, std::int64_t step,
                             std::int64_t shard_bytes = kShardBytes) {
    HostState access(buffers_[0].data(), buffers_[1].data(), buffers_[2].data(),
                     static_cast<std::int64_t>(buffers_[0].size()));
    return save(run, step, access, shard_bytes);
  }
  /// The same of another state.
  std::filesystem::path save(const std::filesystem::path& run, std::int64_t step, StateAccess& access,
                             std::int64_t shard_bytes = kShardBytes) {
    TrainState state = small_train_state(step);
    state.model_fingerprint = spec::model_fingerprint(resolved_.spec);
    const std::string yaml = spec::to_yaml(spec::values_of(resolved_), [](const spec::Key& key) { return !key.aside; });
    return save_checkpoint(run, state, {spec::config_json(resolved_.spec), yaml}, parameters_, access,
                           {.retention = {}, .log = {}, .shard_bytes = shard_bytes});
  }

 private:
  spec::Resolved resolved_;
  std::deque<std::string> names_;
  std::vector<ParameterInfo> parameters_;
  std::vector<float> buffers_[3];
};

inline constexpr std::int64_t kSmallShard = 20'000;  // bytes: some ten files of each kind

}  // namespace llmc::checkpoints
