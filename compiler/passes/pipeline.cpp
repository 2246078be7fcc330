#include "compiler/passes/pipeline.h"

#include <fmt/format.h>

#include <functional>

#include "compiler/graph/llama.h"
#include "compiler/ops/graph_text.h"
#include "compiler/passes/check_graph.h"
#include "compiler/passes/passes.h"
#include "error.h"

namespace llmc::passes {

namespace {

/// Called with the graph after the pass of that number and name.
using After = std::function<void(int number, const char* name, const Graph& graph)>;

Graph run_passes(const spec::Spec& spec, const std::vector<graph::LayerKind>& kinds, const Choice& choice,
                 const After& after) {
  struct Pass {
    const char* name;
    std::function<Graph(Graph)> run;
  };
  const auto with_spec = [&](Graph (*pass)(Graph, const spec::Spec&)) {
    return [&spec, pass](Graph g) { return pass(std::move(g), spec); };
  };
  const Pass passes[] = {
      {"build", [&](Graph) { return graph::build_llama(spec, kinds, choice.micro_batch); }},
      // Forward ops are still unfused here: differentiating fused ops would need gradient rules for them.
      {"differentiate", with_spec(differentiate)},
      {"lower_precision", with_spec(lower_precision)},
      {"pad_rows", with_spec(pad_rows)},
      {"fuse_residual", with_spec(fuse_residual)},
      {"fuse_gradient_sum", with_spec(fuse_gradient_sum)},
      {"chunk_loss", [&](Graph g) { return chunk_loss(std::move(g), choice); }},
      // After fusion: which op overwrites which buffer depends on the adds that are gone.
      {"reuse_in_place", with_spec(reuse_in_place)},
      // Before split_reductions, which inserts ops that recompute need not know.
      {"recompute", [&](Graph g) { return recompute(std::move(g), choice); }},
      // After recompute, which has given each layer its kind: some kinds do not rotate.
      {"fuse_rope", with_spec(fuse_rope)},
      {"split_reductions", with_spec(split_reductions)},
      {"append_optimizer", with_spec(append_optimizer)},
      {"append_inference", with_spec(append_inference)},
      // After recompute: a recomputed product quantises its operands itself. After append_inference: evaluation has the
      // head's products of training, and sampling has not. Before cast_weights: the ops that quantise a weight read its
      // copy.
      {"quantise_products", with_spec(quantise_products)},
      {"fuse_quantising", with_spec(fuse_quantising)},
      // After fuse_quantising, which says what kernels compute and quantise again.
      {"fuse_transposing", with_spec(fuse_transposing)},
      // Late: fusing a residual changes the dtype of a result, and with it the dtype in which a bias is read.
      {"cast_weights", with_spec(cast_weights)},
      // After cast_weights: the copies are a part of split masters.
      {"split_masters", with_spec(split_masters)},
      // After cast_weights and split_masters: ranks gather the copies that ops read.
      {"shard_over_ranks", with_spec(shard_over_ranks)},
      // After shard_over_ranks: the audit's reads must not add to the buffers that ranks gather.
      {"append_audit", with_spec(append_audit)},
      // After cast_weights, whose copies these ops read, and append_audit, which follows the passes of training.
      {"keep_rounded_weights", [&](Graph g) { return keep_rounded_weights(std::move(g), choice); }},
  };
  Graph g;
  int number = 0;
  for (const Pass& pass : passes) {
    g = pass.run(std::move(g));
    after(number++, pass.name, g);
  }
  return g;
}

}  // namespace

graph::Graph lower(const spec::Spec& spec, const std::vector<graph::LayerKind>& kinds, const Choice& choice) {
  Graph g = run_passes(spec, kinds, choice, [](int, const char*, const Graph&) {});
  try {
    check_graph(g, "the last");
  } catch (const Failure&) {
    dumps(spec, kinds, choice);  // throws with the name of the pass
    throw;
  }
  return g;
}

std::vector<GraphDump> dumps(const spec::Spec& spec, const std::vector<graph::LayerKind>& kinds, const Choice& choice) {
  std::vector<GraphDump> result;
  std::string before;
  run_passes(spec, kinds, choice, [&](int number, const char* name, const Graph& graph) {
    check_graph(graph, name);
    std::string text = ops::to_text(graph);
    if (text != before) result.push_back({fmt::format("{:02}-{}.txt", number, name), text});
    before = std::move(text);
  });
  return result;
}

}  // namespace llmc::passes
