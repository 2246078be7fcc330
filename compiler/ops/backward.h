// Builds the backward pass from gradient rules, one op at a time.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/graph/graph.h"

namespace llmc::ops {

using namespace graph;

class Backward {
 public:
  explicit Backward(Graph& graph) : graph_(graph) {}

  /// Returns the backward region of `forward`: its ops' rules, last op first.
  Region reverse(const Region& forward);

  // For rules.

  /// Declares `gradient` as (a part of) the gradient of `tensor`.
  void seed(TensorId tensor, TensorId gradient) { parts_[tensor].push_back(gradient); }
  /// Returns the gradient of `tensor`: the sum of its parts, for which it emits ops if there are several.
  TensorId of(TensorId tensor);
  /// Adds a new part of the gradient of `tensor`, which the current op computes.
  TensorId part(TensorId tensor);
  TensorId of_parameter(TensorId parameter) const { return graph_.at(parameter).partner; }
  /// Whether an earlier op writes the tensor.
  bool is_written(TensorId tensor) const;
  /// Appends an op.
  void emit(OpKind kind, const std::string& name, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
            const Attributes& attributes = {});
  TensorId scratch(const std::string& name);
  TensorId host(Use use) const { return graph_.host(use); }

 private:
  TensorId like(TensorId tensor, const std::string& name);

  Graph& graph_;
  Region region_;
  const Op* forward_ = nullptr;
  std::vector<TensorId> written_;
  std::map<TensorId, std::vector<TensorId>> parts_;
};

}  // namespace llmc::ops
