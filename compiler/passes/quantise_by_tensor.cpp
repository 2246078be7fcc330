#include "compiler/passes/quantise_by_tensor.h"

#include <algorithm>
#include <cstdint>

#include "compiler/ops/make.h"
#include "compiler/ops/op.h"
#include "compiler/ops/quantising/quantise_by_tensor.h"

namespace llmc::passes {

using namespace graph;

std::vector<Op> TensorQuantiser::rewrite(const std::vector<Op>& ops) {
  emitted_.clear(), ops_.clear();
  for (Op op : ops) {
    const ops::Multiplies multiplies = ops::row_of(op.kind).multiplies;
    if (multiplies != ops::Multiplies::no_operands)
      quantise_operands(op, multiplies != ops::Multiplies::x_and_weight, multiplies == ops::Multiplies::dy_and_x);
    ops_.push_back(std::move(op));
  }
  return std::move(ops_);
}

void TensorQuantiser::rewrite_head(Region& head, const std::vector<Region*>& chunks, bool dgrad) {
  scope_ = Scope::step;
  emitted_.clear(), ops_ = std::move(head.ops);
  const Op logits = chunks.front()->ops.front();
  const Operand x = rounded(logits.inputs[0], DType::e4m3, Layout::straight),
                weight = rounded(logits.inputs[1], DType::e4m3, Layout::straight),
                of_gradient = dgrad && codes_ ? rounded(logits.inputs[1], DType::e4m3, Layout::transposed) : weight;
  head.ops = std::move(ops_);
  for (Region* const region : chunks) {
    ops_.clear();
    for (Op op : region->ops) {
      const ops::Multiplies multiplies = ops::row_of(op.kind).multiplies;
      if (multiplies == ops::Multiplies::x_and_weight) give(op, x.straight, weight.straight, x, weight);
      if (multiplies == ops::Multiplies::dy_and_weight && dgrad) {
        const Operand dy = rounded(op.inputs[0], DType::e5m2, Layout::straight);
        give(op, dy.straight, codes_ ? of_gradient.transposed : of_gradient.straight, dy, of_gradient);
      }
      ops_.push_back(std::move(op));
    }
    region->ops = std::move(ops_);
  }
}

void TensorQuantiser::give(Op& op, TensorId a, TensorId b, const Operand& scale_a, const Operand& scale_b) const {
  op.inputs[0] = a, op.inputs[1] = b;
  if (codes_) op.inputs.insert(op.inputs.begin() + 2, {scale_a.scale, scale_b.scale});
}

/// of_gradient: the first operand is dy, which both products of the backward pass read. along_rows: the sum is over the
/// rows of both operands.
void TensorQuantiser::quantise_operands(Op& op, bool of_gradient, bool along_rows) {
  const Operand a = of_gradient ? rounded(op.inputs[0], DType::e5m2, codes_ ? Layout::both : Layout::straight)
                                : rounded(op.inputs[0], DType::e4m3, Layout::straight);
  // Sums of the backward pass are over the rows of a weight, or of x.
  const bool transposes = codes_ && of_gradient;
  const Operand b = rounded(op.inputs[1], DType::e4m3, transposes ? Layout::transposed : Layout::straight);
  give(op, codes_ && along_rows ? a.transposed : a.straight, transposes ? b.transposed : b.straight, a, b);
}

TensorQuantiser::Operand TensorQuantiser::rounded(TensorId id, DType code, Layout layout) {
  auto known = made_.find({id, layout});
  if (known == made_.end()) known = made_.emplace(std::pair(id, layout), declare(id, code, layout)).first;
  const Operand& made = known->second;
  if (!emitted_.insert(made.scale).second) return made;
  const TensorId largest = maxima(id);
  const ops::CodeAttributes attributes{code};
  if (layout == Layout::straight) {
    const std::string& name = graph_.at(made.straight).name;
    ops_.push_back(ops::make::quantise_by_tensor(name, {id, largest}, {made.straight, made.scale}, attributes));
    return made;
  }
  std::vector<TensorId> outputs = {made.transposed, made.scale};
  if (layout == Layout::both) outputs.push_back(made.straight);
  const std::string& name = graph_.at(made.transposed).name;
  ops_.push_back(ops::make::quantise_by_tensor_transposed(name, {id, largest}, std::move(outputs), attributes));
  return made;
}

TensorId TensorQuantiser::maxima(TensorId id) {
  TensorId& made = maxima_.try_emplace(id, kNone).first->second;
  const Tensor& x = graph_.at(id);
  const std::string name = x.name + (backward_ ? "_back_maxima" : "_maxima");
  if (made == kNone) made = vector(name, std::min(x.rows, ops::kMostMaxima));
  if (emitted_.insert(made).second) ops_.push_back(ops::make::largest_magnitude(name, {id}, {made}));
  return made;
}

TensorQuantiser::Operand TensorQuantiser::declare(TensorId id, DType code, Layout layout) {
  const Tensor x = graph_.at(id);
  const std::string suffix = std::string(backward_ ? "_back_" : "_") + name_of(code);
  Operand made;
  if (layout != Layout::transposed)
    made.straight = graph_.add_rounded(id, x.name + suffix, codes_ ? code : DType::bf16, scope_);
  if (layout != Layout::straight)
    made.transposed = graph_.add({.name = x.name + "_transposed" + suffix,
                                  .dtype = code,
                                  .rows = x.cols,
                                  .cols = x.rows,
                                  .pitch = x.rows,
                                  .scope = scope_,
                                  .partner = x.role == Role::parameter ? id : kNone});
  made.scale = vector(graph_.at(layout == Layout::straight ? made.straight : made.transposed).name + "_scale", 1);
  return made;
}

TensorId TensorQuantiser::vector(std::string name, std::int64_t length) {
  return graph_.add({.name = std::move(name), .rows = 1, .cols = length, .pitch = length, .scope = scope_});
}

}  // namespace llmc::passes
