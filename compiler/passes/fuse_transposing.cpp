#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ops/make.h"
#include "compiler/ops/op.h"
#include "compiler/ops/quantising/quantise.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Removes the ops of one backward region that transpose codes of a result of the forward pass which a kernel before
/// them computes again. The forward pass keeps the scales of its rows, so that the largest is known before.
class TransposingFuser {
 public:
  TransposingFuser(const Graph& graph, const Region& forward, const Region& backward)
      : graph_(graph), forward_(forward), backward_(backward), ops_(backward.ops) {}

  std::vector<Op> run() {
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (ops::only_transposes(graph_, ops_[i])) fuse(i);
    return std::move(ops_);
  }

  /// Scales that the forward pass has to keep.
  const std::vector<TensorId>& kept() const { return kept_; }

 private:
  void fuse(std::size_t transpose) {
    const Op op = ops_[transpose];
    const TensorId codes = op.inputs[0];
    const auto maker =
        std::ranges::find_if(ops_, [&](const Op& o) { return std::ranges::count(o.outputs, codes) > 0; });
    if (maker == ops_.end()) return;
    const TensorId row_scales = scales_of_forward(maker->of);
    if (row_scales == kNone) return;
    std::optional<Op> fused = transposing(*maker, op, row_scales);
    if (!fused) return;
    *maker = std::move(*fused);
    ops_.insert(maker, ops::make::largest_scale(graph_.at(op.outputs[1]).name, {row_scales}, {op.outputs[1]}));
    ops_.erase(ops_.begin() + static_cast<std::ptrdiff_t>(transpose) + 1);
    kept_.push_back(row_scales);
  }

  /// Returns the scales of the first result of the forward op; kNone if its kernel does not quantise that.
  TensorId scales_of_forward(OpId id) const {
    const auto op = std::ranges::find(forward_.ops, id, &Op::id);
    if (id == kNone || op == forward_.ops.end()) return kNone;
    const auto of = ops::quantised(*op, 0);
    return of ? of->scales : kNone;
  }

  /// Returns the op with transposed codes, as `transpose` makes them; nothing if its kernel cannot.
  std::optional<Op> transposing(const Op& maker, const Op& transpose, TensorId row_scales) const {
    Op op = maker;
    std::size_t input = ops::own_inputs(op);
    for (Quantised& q : op.quantised) {
      input += ops::inputs_of(q);
      if (ops::quantised(maker, q.output)->codes != transpose.inputs[0]) continue;
      q.transposed = true;
      const ops::CanQuantise can = ops::row_of(op.kind).can_quantise;
      if (!can(ops::Operands{graph_, backward_, maker}, q)) return {};
      op.inputs.insert(op.inputs.begin() + static_cast<std::ptrdiff_t>(input), {row_scales, transpose.outputs[1]});
      std::ranges::replace(op.outputs, transpose.inputs[0], transpose.outputs[0]);
      std::ranges::replace(op.outputs, transpose.inputs[1], transpose.outputs[2]);
      return op;
    }
    return {};
  }

  const Graph& graph_;
  const Region &forward_, &backward_;
  std::vector<Op> ops_;
  std::vector<TensorId> kept_;
};

}  // namespace

Graph fuse_transposing(Graph graph, const spec::Spec& spec) {
  if (spec.matmul != spec::Matmul::fp8_full) return graph;
  for (Region& backward : graph.regions) {
    if (backward.block != Block::layer || !backward.is_backward()) continue;
    const auto forward = std::ranges::find_if(
        graph.regions, [&](const Region& region) { return region.is_twin(backward) && region.is_forward(); });
    TransposingFuser fuser(graph, *forward, backward);
    backward.ops = fuser.run();
    for (Region& twin : graph.regions)
      if (twin.is_twin(backward)) twin.saved.insert(twin.saved.end(), fuser.kept().begin(), fuser.kept().end());
  }
  return graph;
}

}  // namespace llmc::passes
