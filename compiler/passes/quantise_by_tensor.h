// Gives products operands of 8 bits with one scale a tensor.
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"

namespace llmc::passes {

/// Quantises the operands of the products in the layers' regions of one pass, or of the head's: to e4m3, gradients to
/// e5m2. Each operand is quantised just before its first product. Regions of several variants share the tensors.
class TensorQuantiser {
 public:
  /// codes: the target multiplies codes, of which both operands lie along the sum. Else operands are the numbers.
  TensorQuantiser(graph::Graph& graph, bool backward, bool codes) : graph_(graph), backward_(backward), codes_(codes) {}

  std::vector<graph::Op> rewrite(const std::vector<graph::Op>& ops);

  /// Quantises the operands of the head's products, as Quantiser does: the logits' gradient, for dgrad, with one scale
  /// a chunk.
  void rewrite_head(graph::Region& head, const std::vector<graph::Region*>& chunks, bool dgrad);

 private:
  enum class Layout { straight, transposed, both };
  /// A tensor in 8 bits and its scale.
  struct Operand {
    graph::TensorId straight = graph::kNone, transposed = graph::kNone, scale = graph::kNone;
  };

  void give(graph::Op& op, graph::TensorId a, graph::TensorId b, const Operand& scale_a, const Operand& scale_b) const;
  void quantise_operands(graph::Op& op, bool of_gradient, bool along_rows);
  Operand rounded(graph::TensorId id, DType code, Layout layout);
  /// Returns the tensor of the largest magnitudes of parts of `id`.
  graph::TensorId maxima(graph::TensorId id);
  Operand declare(graph::TensorId id, DType code, Layout layout);
  graph::TensorId vector(std::string name, std::int64_t length);

  graph::Graph& graph_;
  bool backward_, codes_;
  graph::Scope scope_ = graph::Scope::layer;
  std::map<std::pair<graph::TensorId, Layout>, Operand> made_;
  std::map<graph::TensorId, graph::TensorId> maxima_;
  std::set<graph::TensorId> emitted_;  // in this region
  std::vector<graph::Op> ops_;
};

}  // namespace llmc::passes
