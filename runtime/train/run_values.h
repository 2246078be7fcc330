// The run-time values of a run: the spec's, with what the command line replaces.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "train/schedule.h"

namespace llmc {

/// Named like the keys of a spec.
struct RunValues {
  struct Optimizer {
    double lr = 0, beta1 = 0, beta2 = 0, eps = 0, weight_decay = 0, clip_norm = 0;
    bool decay_all = false;  // optimizer.decay
  } optimizer;
  Schedule schedule;
  struct Data {
    std::string tokenizer;  // empty: samples are token ids
    std::string train_path, train_format;
    std::string validation_path, validation_format;  // path empty: no evaluation
    std::uint64_t seed = 0;
  } data;
  std::int64_t batch_tokens = 0;
  struct Evaluation {
    std::int64_t every = 0, sequences = 0;
  } evaluation;
  struct Sampling {
    std::int64_t every = 0;
    std::vector<std::string> prompts;
    std::int64_t tokens = 0;
    double temperature = 0;
  } sampling;
  struct Checkpoint {
    std::int64_t every = 0, keep_last = 0, keep_every = 0;
  } checkpoint;
  struct Metrics {
    std::int64_t every = 1;
    bool per_parameter = false;  // compiled in
  } metrics;
  std::uint64_t seed = 0;
};

/// `keys_json` is ProgramInfo::keys_json: an array of {"key", "value", "run_time", "type", and where there are any
/// "path", "min", "max", "exclusive_min", "exclusive_max", "choices", "count"}; type: integer | number | boolean |
/// string | strings | choice | bytes | numbers | recompute. `overrides` are "key.path=value". Relative paths of the
/// spec are resolved against `base`, those of overrides against the current directory. Throws Failure(usage) when an
/// override is malformed, unknown, out of bounds, given twice, or names a compiled-in key with another value than the
/// one compiled in; Failure(spec) when the values do not fit together.
RunValues resolve_run_values(const char* keys_json, std::span<const std::string> overrides,
                             const std::filesystem::path& base, std::int64_t sequence_length, std::int64_t micro_batch);

/// One line a run-time key, "  optimizer.lr=0.0003": what --help shows.
std::string list_run_time_keys(const char* keys_json);

}  // namespace llmc
