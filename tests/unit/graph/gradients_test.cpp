// Differentiation: the ops of the backward regions, and their order.
#include <gtest/gtest.h>

#include <algorithm>

#include "by_name.h"
#include "compiler/graph/llama.h"
#include "compiler/passes/check_graph.h"
#include "compiler/passes/passes.h"
#include "error.h"
#include "small_spec.h"

namespace llmc::passes {
namespace {

using namespace graph;

Graph differentiated(const std::vector<std::string>& overrides = {}) {
  const spec::Spec spec = small_spec(overrides).spec;
  return differentiate(build_llama(spec, kinds_of(spec), 2), spec);
}

std::vector<std::string> names(Graph& graph, const std::string& name) {
  std::vector<std::string> result;
  for (const Op& op : region(graph, name).ops) result.push_back(op.name);
  return result;
}

TEST(Gradients, EveryForwardOpHasItsBackward) {
  Graph graph = differentiated();
  check_graph(graph, "differentiate");
  const std::vector<std::string> layer = names(graph, "layer_backward");
  for (const char* name :
       {"down_wgrad", "down_bgrad", "down_dgrad", "swiglu_backward", "gate_up_wgrad", "gate_up_bgrad", "gate_up_dgrad",
        "mlp_norm_backward", "o_wgrad", "o_bgrad", "o_dgrad", "attention_backward", "rope_backward", "qkv_wgrad",
        "qkv_bgrad", "qkv_dgrad", "attention_norm_backward"})
    EXPECT_EQ(std::count(layer.begin(), layer.end(), name), 1) << name;
  // Two uses of the stream in each half of a layer need one sum each.
  EXPECT_EQ(std::count_if(region(graph, "layer_backward").ops.begin(), region(graph, "layer_backward").ops.end(),
                          [](const Op& op) { return op.kind == OpKind::add; }),
            2);
}

TEST(Gradients, NormsOfHeadsTakeThePlaceOfRope) {
  Graph graph = differentiated({"model.qk_norm=true", "model.mlp_bias=false"});
  check_graph(graph, "differentiate");
  const std::vector<std::string> layer = names(graph, "layer_backward");
  EXPECT_EQ(std::count(layer.begin(), layer.end(), "qk_norm_rope_backward"), 1);
  EXPECT_EQ(std::count(layer.begin(), layer.end(), "rope_backward"), 0);
}

TEST(Gradients, BackwardRunsFromTheLossToTheEmbedding) {
  Graph graph = differentiated();
  std::vector<std::string> order;
  for (const Region& region : graph.regions) order.push_back(region.name);
  EXPECT_EQ(order, (std::vector<std::string>{"embed", "layer_forward", "head", "head_backward", "layer_backward",
                                             "embed_backward"}));
  EXPECT_EQ(region(graph, "layer_backward").loop, Loop::layers_down);
}

TEST(Gradients, WithoutBiasesNoColumnSums) {
  Graph graph = differentiated({"model.attention_bias=false", "model.mlp_bias=false"});
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) EXPECT_NE(op.kind, OpKind::column_sum) << op.name;
}

TEST(Gradients, ATiedTableGetsBothGradients) {
  Graph graph = differentiated({"model.tie_word_embeddings=true"});
  const TensorId gradient = graph.at(find(graph, "embed_weight")).partner;
  int writers = 0;
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops)
      writers += static_cast<int>(std::count(op.outputs.begin(), op.outputs.end(), gradient));
  EXPECT_EQ(writers, 2);
  EXPECT_EQ(find(graph, "lm_head_weight"), kNone);
}

TEST(Gradients, AnOpWithoutARuleIsAnInternalError) {
  Graph graph = build_llama(small_spec().spec, kinds_of(small_spec().spec), 2);
  region(graph, "layer_forward").ops.front().kind = OpKind::gather_rows;
  try {
    differentiate(std::move(graph), small_spec().spec);
    FAIL() << "no error";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::internal);
    EXPECT_NE(std::string(failure.what()).find("gather_rows"), std::string::npos) << failure.what();
  }
}

}  // namespace
}  // namespace llmc::passes
