// What may be decided for a run beside its spec: the value that a planner tries.
#pragma once

#include <cstdint>
#include <vector>

#include "compiler/graph/graph.h"
#include "spec/spec.h"

namespace llmc::passes {

struct Choice {
  std::int64_t micro_batch = 0;               // sequences of a pass
  std::int64_t loss_chunk = 0;                // rows of logits alive at once; divides the micro-batch's tokens
  std::vector<graph::Groups> recompute = {};  // of each layer: what its backward pass computes again

  bool operator==(const Choice&) const = default;
};

/// What memory.recompute asks of each layer; nothing where it is auto.
std::vector<graph::Groups> recompute_of(const spec::Spec& spec);

/// The shortest memory.recompute that asks this of the layers.
spec::Recompute recompute_from(const std::vector<graph::Groups>& layers);

}  // namespace llmc::passes
