#include "compiler/passes/quantise_by_block.h"

#include <string>

#include "compiler/ops/make.h"
#include "compiler/ops/op.h"
#include "compiler/ops/quantising/quantise_blocks.h"

namespace llmc::passes {

using namespace graph;

std::vector<Op> BlockQuantiser::rewrite(const std::vector<Op>& ops) {
  emitted_.clear(), ops_.clear();
  for (Op op : ops) {
    switch (ops::row_of(op.kind).multiplies) {
      case ops::Multiplies::x_and_weight: quantise_operands(op, false, false); break;
      case ops::Multiplies::dy_and_weight: quantise_operands(op, false, true); break;
      case ops::Multiplies::dy_and_x: quantise_operands(op, true, true); break;
      case ops::Multiplies::no_operands: break;
    }
    ops_.push_back(std::move(op));
  }
  return std::move(ops_);
}

/// a_down, b_down: the sum is over the rows of the operand.
void BlockQuantiser::quantise_operands(Op& op, bool a_down, bool b_down) {
  const Operand a = rounded(op.inputs[0], a_down), b = rounded(op.inputs[1], b_down);
  op.inputs[0] = a.y, op.inputs[1] = b.y;
  if (codes_) op.inputs.insert(op.inputs.begin() + 2, {a.scales, b.scales});
}

BlockQuantiser::Operand BlockQuantiser::rounded(TensorId id, bool down) {
  auto known = made_.find({id, down});
  if (known == made_.end()) known = made_.emplace(std::pair(id, down), declare(id, down)).first;
  const Operand& made = known->second;
  if (!emitted_.insert(made.y).second) return made;
  std::vector<TensorId> outputs = {made.y};
  if (codes_) outputs.push_back(made.scales);
  ops_.push_back(
      ops::make::quantise_blocks(graph_.at(made.y).name, {id}, std::move(outputs), ops::BlockAttributes{down}));
  return made;
}

BlockQuantiser::Operand BlockQuantiser::declare(TensorId id, bool down) {
  const Tensor x = graph_.at(id);
  const std::string name = x.name + (backward_ ? "_back_mxfp8" : "_mxfp8") + (down ? "_down" : "");
  Operand made;
  made.y = graph_.add_rounded(id, name, codes_ ? DType::e4m3 : DType::bf16, Scope::layer);
  if (!codes_) return made;
  const std::int64_t bytes = ops::block_scale_bytes(x.rows, x.cols, down);
  made.scales = graph_.add({.name = name + "_scales",
                            .dtype = DType::byte,
                            .rows = 1,
                            .cols = bytes,
                            .pitch = bytes,
                            .scope = Scope::layer});
  return made;
}

}  // namespace llmc::passes
