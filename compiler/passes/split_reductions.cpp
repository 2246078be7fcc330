#include <algorithm>

#include "compiler/ops/make.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Partial sums left by the first of two adding steps. More than twice this many are added in two steps: in one, few
/// lanes would wait long.
constexpr std::int64_t kFolded = 32;

/// Returns the row blocks of a column reduction. Their number depends on the shape alone, so that sums have one order
/// on every machine. At least 8 rows each keep partial sums small; the number is enough to fill a GPU, whose SMs run
/// four or more at once.
std::int64_t row_blocks(std::int64_t rows) {
  const std::int64_t blocks = std::clamp<std::int64_t>(rows / 8, 1, 1024);
  return blocks > 2 * kFolded ? blocks / kFolded * kFolded : blocks;
}

}  // namespace

Graph split_reductions(Graph graph, const spec::Spec&) {
  for (Region& region : graph.regions) {
    std::vector<Op> split;
    for (Op op : region.ops) {
      const int sum = ops::row_of(op.kind).row_sum;
      if (sum == ops::kNoSum) {
        split.push_back(std::move(op));
        continue;
      }
      TensorId& output = op.outputs[static_cast<std::size_t>(sum)];
      const TensorId gradient = output;
      const std::int64_t rows = graph.at(op.inputs[0]).rows;
      output = graph.add({.name = op.name + "_partial",
                          .rows = row_blocks(rows),
                          .cols = graph.at(gradient).cols,
                          .scope = graph.at(gradient).scope});
      TensorId partial = output;
      const std::string name = op.name;
      split.push_back(std::move(op));
      if (graph.at(partial).rows > 2 * kFolded) {
        Tensor folded = graph.at(partial);
        folded.name = name + "_folded", folded.rows = kFolded;
        const TensorId id = graph.add(folded);
        split.push_back(ops::make::column_reduce(name + "_fold", {partial}, {id}));
        partial = id;
      }
      split.push_back(ops::make::column_reduce(name + "_reduce", {partial}, {gradient}));
    }
    region.ops = std::move(split);
  }
  return graph;
}

}  // namespace llmc::passes
