// Reads all data of a run folder, as far as it is readable, for a report.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/tools/runs/summary.h"
#include "spec/resolved.h"

namespace llmc::runs {

/// Values of every line of metrics.jsonl that are not members of MetricsLine, if the run and its llmc know them.
inline constexpr std::array<const char*, 9> kMeasures = {"top1",   "lse_mean",  "lse_max", "entropy",      "ignored",
                                                         "epochs", "data_wait", "mfu",     "product_share"};

/// A line of metrics.jsonl. NaN: null or missing.
struct MetricsLine {
  std::int64_t step = 0, tokens = 0;
  double loss, lr, grad_norm, tokens_per_second, seconds;
  double time = 0;  // seconds of all starts up to this line, without work that a resume discarded
  std::array<double, kMeasures.size()> measures;
  bool evaluated = false;
  /// The line's other numbers by key. For per_parameter: "ratio_median" and "ratio_largest" over the parameters that
  /// have a ratio.
  std::vector<std::pair<std::string, double>> sometimes;
  std::vector<nlohmann::ordered_json> skipped;                 // samples: numbers, or of a mixture names
  std::string skip_reason;                                     // empty: none is given
  bool loss_is_outlier = false, grad_norm_is_outlier = false;  // see Outliers
};

struct Record {
  Summary summary;
  std::vector<MetricsLine> lines;              // by ascending step
  std::vector<nlohmann::ordered_json> starts;  // lines of history.jsonl
  std::vector<nlohmann::ordered_json> samples;
  nlohmann::ordered_json plan;         // null: missing or not readable
  std::optional<spec::Values> values;  // of spec.yaml, with paths as written there
};

/// Reads a run folder. Errors in it do not throw: summary.problem describes them, with the number of unreadable lines.
Record read_record(const std::filesystem::path& run);

/// Returns about `points` evenly spaced lines at most. Adds the first and the last line, and those that were evaluated,
/// skipped or are outliers.
std::vector<MetricsLine> thinned(const std::vector<MetricsLine>& lines, std::size_t points);

}  // namespace llmc::runs
