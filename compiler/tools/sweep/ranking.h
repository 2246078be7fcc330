// Ranks the runs of a sweep: the best setting, its neighbours in the grid, and whether it lies at an edge.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tools/sweep/record.h"

namespace llmc::sweep {

inline constexpr char kSeed[] = "seed";  // the key over whose values losses are averaged

/// A combination of values of all keys but kSeed, which the runs of several seeds share.
struct Setting {
  std::vector<std::size_t> runs;  // one for each seed
  std::string label;              // "optimizer.lr=1e-3 model.hidden_size=512"
  double loss = 0;                // mean over the runs
  double spread = 0;              // largest minus smallest
};

struct Neighbour {
  std::string key, value;      // the one difference from the best setting
  std::optional<double> loss;  // nothing: not known
};

struct Ranking {
  bool validation = false;               // losses are of validation data, else of training
  std::vector<Setting> settings;         // by ascending loss; only those with a loss of every seed
  std::vector<std::size_t> unevaluated;  // finished runs that are not ranked, because others have validation losses
  std::vector<Neighbour> neighbours;     // of the first setting
  /// Keys of the first setting whose value is the smallest or largest of three numbers or more: the optimum may lie
  /// beyond the grid.
  std::vector<std::string> edges;
};

/// Losses of runs that did not finish do not count. They are of validation data if a finished run has one.
Ranking rank(const Record& record);

}  // namespace llmc::sweep
