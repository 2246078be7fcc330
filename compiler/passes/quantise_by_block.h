// Gives products operands of 8 bits with a scale for each 32 elements along the sum.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace llmc::passes {

/// Quantises the operands of the products in the layers' regions of one pass to e4m3, each just before its first
/// product. A tensor has one result for sums along its rows, and one for sums down its columns. Regions of several
/// variants share the tensors.
class BlockQuantiser {
 public:
  /// codes: the target multiplies codes, which lie as the numbers do. Else operands are the numbers.
  BlockQuantiser(graph::Graph& graph, bool backward, bool codes) : graph_(graph), backward_(backward), codes_(codes) {}

  std::vector<graph::Op> rewrite(const std::vector<graph::Op>& ops);

 private:
  /// A tensor in 8 bits and its scales.
  struct Operand {
    graph::TensorId y = graph::kNone, scales = graph::kNone;
  };

  void quantise_operands(graph::Op& op, bool a_down, bool b_down);
  Operand rounded(graph::TensorId id, bool down);
  Operand declare(graph::TensorId id, bool down);

  graph::Graph& graph_;
  bool backward_, codes_;
  std::map<std::pair<graph::TensorId, bool>, Operand> made_;
  std::set<graph::TensorId> emitted_;  // in this region
  std::vector<graph::Op> ops_;
};

}  // namespace llmc::passes
