// Solves exactly which ops each layer recomputes, for the least time of a step within a number of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/graph/graph.h"

namespace llmc::plan {

/// Cost of a layer that recomputes `groups`.
struct LayerOption {
  graph::Groups groups = 0;
  std::size_t kept = 0;   // bytes of its slab
  std::size_t bound = 0;  // bytes of transients that are live while it runs
  double seconds = 0;     // of its forward and backward pass in one micro-batch
};

/// Layers of one kind.
struct KindOfLayers {
  std::int64_t layers = 0;
  std::vector<LayerOption> options;
};

struct RecomputeProblem {
  std::vector<KindOfLayers> kinds;
  std::size_t fixed = 0;  // bytes besides slabs and transients
  std::size_t bound = 0;  // bytes of transients outside of the layers
  std::size_t budget = 0;
};

struct RecomputeSolution {
  bool fits = false;
  std::vector<std::vector<graph::Groups>> layers;  // of each kind, layers that recompute most first
  double seconds = 0;                              // of all layers
  std::size_t bytes = 0;                           // that the plan needs if transients pack into their bound
};

/// Minimises the seconds such that fixed + the layers' slabs + their largest bound <= budget.
///
/// Slabs of layers add up and bounds do not, so each bound that a solution can have (those of the options) gives a
/// multiple-choice knapsack. Dynamic programming over the layers, kind by kind, solves it. States are (bytes, seconds)
/// that no other beats in both. The lower hulls of the remaining options, which allow fractions of an option, bound a
/// state from below; states not below the best known solution are dropped.
RecomputeSolution solve(const RecomputeProblem& problem);

/// Returns the solution of least bytes, regardless of its time.
RecomputeSolution smallest(const RecomputeProblem& problem);

}  // namespace llmc::plan
