#include "compiler/ops/backward.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ops/op.h"
#include "error.h"

namespace llmc::ops {

Region Backward::reverse(const Region& forward) {
  region_ = {.name = fmt::format("{}_backward", name_of(forward.block)),
             .block = forward.block,
             .part = Part::backward,
             .loop = forward.loop == Loop::layers_up ? Loop::layers_down : forward.loop,
             .variant = forward.variant};
  ResidualStream& gradient = graph_.dstream;
  if (forward.writes) {
    const TensorId above = graph_.stream.*forward.writes;
    gradient.*forward.writes = like(above, "d_" + graph_.at(above).name);
    seed(above, gradient.*forward.writes);
  }
  for (auto op = forward.ops.rbegin(); op != forward.ops.rend(); ++op) {
    forward_ = &*op;
    row_of(op->kind).gradient(*this, *op);
  }
  if (forward.reads) gradient.*forward.reads = of(graph_.stream.*forward.reads);
  for (TensorId ResidualStream::* end : {forward.reads, forward.writes})
    if (end) graph_.at(gradient.*end).scope = Scope::boundary;
  return std::move(region_);
}

TensorId Backward::of(TensorId tensor) {
  std::vector<TensorId>& parts = parts_[tensor];
  const std::string name = "d_" + graph_.at(tensor).name;
  if (parts.empty()) throw Failure(Exit::internal, "no gradient reaches %" + graph_.at(tensor).name);
  while (parts.size() > 1) {
    const TensorId sum = like(tensor, name);
    emit(OpKind::add, name + "_sum", {parts[0], parts[1]}, {sum});
    parts.erase(parts.begin());
    parts[0] = sum;
  }
  return parts[0];
}

TensorId Backward::part(TensorId tensor) {
  const std::string name = "d_" + graph_.at(tensor).name;
  const TensorId id = like(tensor, parts_[tensor].empty() ? name : name + "_by_" + forward_->name);
  seed(tensor, id);
  return id;
}

bool Backward::is_written(TensorId tensor) const {
  return std::find(written_.begin(), written_.end(), tensor) != written_.end();
}

void Backward::emit(OpKind kind, const std::string& name, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
                    const Attributes& attributes) {
  written_.insert(written_.end(), outputs.begin(), outputs.end());
  region_.ops.push_back({.kind = kind,
                         .name = name,
                         .inputs = std::move(inputs),
                         .outputs = std::move(outputs),
                         .attributes = attributes,
                         .of = forward_->id});
}

TensorId Backward::scratch(const std::string& name) {
  return graph_.add(
      {.name = name, .rows = 1, .cols = 1, .scope = region_.block == Block::layer ? Scope::layer : Scope::step});
}

TensorId Backward::like(TensorId tensor, const std::string& name) {
  const Tensor& t = graph_.at(tensor);
  return graph_.add({.name = name,
                     .dtype = t.dtype,
                     .rows = t.rows,
                     .cols = t.cols,
                     .scope = region_.block == Block::layer ? Scope::layer : Scope::step,
                     .axis = t.axis,
                     .halves = t.halves});
}

}  // namespace llmc::ops
