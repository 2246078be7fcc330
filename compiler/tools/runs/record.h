// All that a run folder says, as far as it can be read: what a report shows.
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

/// What every line of metrics.jsonl has besides the members of Line, where the run and its llmc know it.
inline constexpr std::array<const char*, 9> kMeasures = {"top1",   "lse_mean",  "lse_max", "entropy",      "ignored",
                                                         "epochs", "data_wait", "mfu",     "product_share"};

/// A line of metrics.jsonl. NaN: null, or not there.
struct Line {
  std::int64_t step = 0, tokens = 0;
  double loss, lr, grad_norm, tokens_per_second, seconds;
  double time = 0;  // seconds of all starts together up to here; what a resume threw away is not counted
  std::array<double, kMeasures.size()> measures;
  bool evaluated = false;
  /// Every other number of the line by its key, and of per_parameter "ratio_median" and "ratio_largest", over the
  /// parameters that have a ratio.
  std::vector<std::pair<std::string, double>> sometimes;
  std::vector<std::uint64_t> skipped;                          // sample ids
  std::string skip_reason;                                     // empty: none is said
  bool loss_is_outlier = false, grad_norm_is_outlier = false;  // see Outliers
};

struct Record {
  Summary summary;
  std::vector<Line> lines;                     // steps ascending
  std::vector<nlohmann::ordered_json> starts;  // lines of history.jsonl
  std::vector<nlohmann::ordered_json> samples;
  nlohmann::ordered_json plan;         // null: not there, or not readable
  std::optional<spec::Values> values;  // of spec.yaml, paths as they are written there
};

/// Never throws for what is in the folder: that becomes summary.problem, with how many lines could not be read.
Record read_record(const std::filesystem::path& run);

/// At most about `points` lines, evenly spaced, and besides those that were evaluated, skipped or are outliers, the
/// first and the last.
std::vector<Line> thinned(const std::vector<Line>& lines, std::size_t points);

}  // namespace llmc::runs
