// Which layers compute what again, so that the step takes least time within a number of bytes: exactly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/graph/graph.h"

namespace llmc::plan {

/// What a layer costs that computes `groups` again.
struct LayerOption {
  graph::Groups groups = 0;
  std::size_t kept = 0;   // bytes of its slab
  std::size_t bound = 0;  // bytes of transients that are alive while it runs
  double seconds = 0;     // of its forward and backward pass, in one micro-batch
};

/// Layers of one kind.
struct KindOfLayers {
  std::int64_t layers = 0;
  std::vector<LayerOption> options;
};

struct RecomputeProblem {
  std::vector<KindOfLayers> kinds;
  std::size_t fixed = 0;  // bytes beside slabs and transients
  std::size_t bound = 0;  // bytes of transients outside of the layers
  std::size_t budget = 0;
};

struct RecomputeSolution {
  bool fits = false;
  std::vector<std::vector<graph::Groups>> layers;  // of each kind, those that compute most again first
  double seconds = 0;                              // of all layers
  std::size_t bytes = 0;                           // that the plan needs, as far as transients pack into their bound
};

/// Least seconds with fixed + the layers' slabs + the largest bound of any of them <= budget.
///
/// Slabs of layers add up and bounds do not, so for each bound that a solution can have (those of the options) this is
/// a multiple-choice knapsack. It is solved by dynamic programming over the layers, kind by kind: states are (bytes,
/// seconds) that no other beats in both, and those are dropped that even the lower hulls of the options, of which a
/// layer could have a fraction each, cannot bring below the best solution known.
RecomputeSolution solve(const RecomputeProblem& problem);

/// The solution of least bytes, whatever it costs.
RecomputeSolution smallest(const RecomputeProblem& problem);

}  // namespace llmc::plan
