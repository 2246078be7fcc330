#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Removes the ops of one region that quantise what a kernel before them has made and could quantise itself.
class QuantisingFuser {
 public:
  QuantisingFuser(const Graph& graph, const Region& region) : graph_(graph), region_(region), ops_(region.ops) {}

  std::vector<Op> run() {
    // A kernel may quantise one result only if it does another.
    while (fuse_one()) continue;
    return std::move(ops_);
  }

 private:
  bool fuse_one() {
    for (std::size_t i = 0; i < ops_.size(); ++i)
      if (ops::row_of(ops_[i].kind).rounds_rows && fuse(i)) return true;
    return false;
  }

  /// Returns the number of the op before op `end` that makes the tensor.
  std::optional<std::size_t> maker(TensorId id, std::size_t end) const {
    for (std::size_t i = end; i-- > 0;)
      if (std::ranges::count(ops_[i].outputs, id)) return i;
    return {};
  }

  bool fuse(std::size_t quantise) {
    const Op op = ops_[quantise];
    const TensorId x = op.inputs[0];
    const std::optional<std::size_t> found = maker(x, quantise);
    if (!found) return false;
    std::size_t at = *found;
    Quantised result{.output = static_cast<int>(std::ranges::find(ops_[at].outputs, x) - ops_[at].outputs.begin()),
                     .folded = op.inputs.size() == 2,
                     .alone = is_read_by(op, x)};
    const ops::CanQuantise can = ops::row_of(ops_[at].kind).can_quantise;
    if (!can || !can(ops::Operands{graph_, region_, ops_[at]}, result)) return false;
    if (result.folded) {
      const std::optional<std::size_t> factors = maker(op.inputs[1], quantise);
      if (!factors) return false;
      if (*factors > at) {
        // They are of a weight, which no op of a layer writes.
        std::rotate(ops_.begin() + static_cast<std::ptrdiff_t>(at),
                    ops_.begin() + static_cast<std::ptrdiff_t>(*factors),
                    ops_.begin() + static_cast<std::ptrdiff_t>(*factors) + 1);
        ++at;
      }
    }
    Op& into = ops_[at];
    into.quantised.push_back(result);
    if (result.folded) into.inputs.push_back(op.inputs[1]);
    if (result.alone)
      into.outputs[static_cast<std::size_t>(result.output)] = op.outputs[0];
    else
      into.outputs.push_back(op.outputs[0]);
    into.outputs.push_back(op.outputs[1]);
    ops_.erase(ops_.begin() + static_cast<std::ptrdiff_t>(quantise));
    return true;
  }

  /// Whether this op alone reads the tensor.
  bool is_read_by(const Op& op, TensorId id) const {
    const TensorId buffer = graph_.storage(id);
    if (graph_.stream.has(buffer) || graph_.dstream.has(buffer) || std::ranges::count(region_.saved, buffer))
      return false;
    const auto reads = [&](const Op& other) { return std::ranges::count(other.inputs, id) > 0; };
    // Other regions of a layer read what it keeps, and nothing else.
    if (region_.block != Block::layer && std::ranges::any_of(graph_.regions, [&](const Region& other) {
          return &other != &region_ && std::ranges::any_of(other.ops, reads);
        }))
      return false;
    return std::ranges::none_of(ops_, [&](const Op& other) { return other.name != op.name && reads(other); });
  }

  const Graph& graph_;
  const Region& region_;
  std::vector<Op> ops_;
};

}  // namespace

Graph fuse_quantising(Graph graph, const spec::Spec& spec) {
  if (spec.has_fp8_products())
    for (Region& region : graph.regions)
      if (region.trains()) region.ops = QuantisingFuser(graph, region).run();
  return graph;
}

}  // namespace llmc::passes
