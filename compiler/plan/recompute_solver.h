// Selects which ops each layer recomputes, so that a step takes the least time within a budget of bytes; exact.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "compiler/graph/graph.h"

namespace llmc::plan {

/// Cost of a layer that recomputes `groups`, a bit mask of groups of ops (graph.h).
struct LayerOption {
  graph::RecomputeGroups groups = 0;
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
  std::size_t fixed = 0;  // bytes other than slabs and transients
  std::size_t bound = 0;  // bytes of transients outside of the layers
  std::size_t budget = 0;
};

struct RecomputeSolution {
  bool fits = false;
  std::vector<std::vector<graph::RecomputeGroups>> layers;  // by kind, then by layer; those that recompute most first
  double seconds = 0;                                       // of all layers
  std::size_t bytes = 0;                                    // of the plan, if transients can be packed into their bound
};

/// Minimises the seconds such that fixed + the layers' slabs + their largest bound <= budget.
///
/// Slabs of layers add up and bounds do not, so each bound that a solution can have (those of the options) gives a
/// multiple-choice knapsack. Dynamic programming over the layers, kind by kind, solves it. States are the
/// Pareto-optimal pairs (bytes, seconds). The linear relaxation of the remaining layers, which allows fractions of an
/// option, bounds a state from below. States whose bound is not below the best known solution are dropped.
RecomputeSolution solve(const RecomputeProblem& problem);

/// Returns a lower bound for the seconds of any solution, of layers that could mix fractions of options; infinity if
/// there is no solution.
double least_seconds(const RecomputeProblem& problem);

/// Returns the solution of least bytes, regardless of its time.
RecomputeSolution smallest(const RecomputeProblem& problem);

}  // namespace llmc::plan
