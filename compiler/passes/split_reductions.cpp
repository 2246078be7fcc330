#include <algorithm>

#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// Row blocks of a column reduction. Fixed by the shape, never by the machine, so that sums have one order everywhere:
/// enough blocks to keep a GPU's SMs or a server's cores busy, at least 8 rows each.
std::int64_t row_blocks(std::int64_t rows) { return std::clamp<std::int64_t>(rows / 8, 1, 256); }

}  // namespace

Graph split_reductions(Graph graph, const spec::Spec&) {
  for (Region& region : graph.regions) {
    std::vector<Op> ops;
    for (Op op : region.ops) {
      const bool norm = op.kind == OpKind::rms_norm_backward, sum = op.kind == OpKind::column_sum;
      if (!norm && !sum) {
        ops.push_back(std::move(op));
        continue;
      }
      TensorId& output = op.outputs[norm ? 1 : 0];
      const TensorId gradient = output;
      const std::int64_t rows = graph.at(op.inputs[0]).rows;
      output = graph.add({.name = op.name + "_partial",
                          .rows = row_blocks(rows),
                          .cols = graph.at(gradient).cols,
                          .scope = graph.at(gradient).scope});
      const Op reduce{.kind = OpKind::column_reduce, .name = op.name + "_reduce", .inputs = {output}, .outputs = {gradient}};
      ops.push_back(std::move(op));
      ops.push_back(reduce);
    }
    region.ops = std::move(ops);
  }
  return graph;
}

}  // namespace llmc::passes
