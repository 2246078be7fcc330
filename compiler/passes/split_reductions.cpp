#include "compiler/ops/lanes.h"
#include "compiler/ops/make.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

Graph split_reductions(Graph graph, const spec::Spec&) {
  for (Region& region : graph.regions) {
    std::vector<Op> split;
    for (Op op : region.ops) {
      const int sum = ops::row_of(op.kind).row_sum(op);
      if (sum == ops::kNoSum) {
        split.push_back(std::move(op));
        continue;
      }
      TensorId& output = op.outputs[static_cast<std::size_t>(sum)];
      const TensorId gradient = output;
      const std::int64_t rows = graph.at(op.inputs[0]).rows;
      output = graph.add({.name = op.name + "_partial",
                          .rows = ops::row_blocks(rows),
                          .cols = graph.at(gradient).cols,
                          .scope = graph.at(gradient).scope});
      TensorId partial = output;
      const std::string name = op.name;
      split.push_back(std::move(op));
      if (graph.at(partial).rows > 2 * ops::kFoldedSums) {
        Tensor folded = graph.at(partial);
        folded.name = name + "_folded", folded.rows = ops::kFoldedSums;
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
