// Decisions about a run beyond its spec: the values that a planner tries.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/graph/graph.h"
#include "spec/spec.h"

namespace llmc::passes {

struct Choice {
  std::int64_t micro_batch = 0;  // sequences of a pass
  std::int64_t loss_chunk = 0;   // rows of logits that are live at once; divides the micro-batch's tokens
  std::vector<graph::RecomputeGroups> recompute = {};  // of each layer: ops recomputed in its backward pass
  bool keep_rounded_weights = false;                   // for all micro-batches of a step

  bool operator==(const Choice&) const = default;
};

/// Returns the groups that memory.recompute sets for each layer; empty if it is auto.
std::vector<graph::RecomputeGroups> recompute_of(const spec::Spec& spec);

/// Returns the shortest memory.recompute that sets these groups for the layers of a model.
spec::Recompute recompute_from(const std::vector<graph::RecomputeGroups>& layers, const spec::Model& model);

}  // namespace llmc::passes
