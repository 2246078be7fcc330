// Differentiation: which ops the backward regions have, and in which order.
#include "compiler/graph/gradients.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/graph/llama.h"
#include "compiler/graph/verify.h"
#include "error.h"
#include "small_spec.h"

namespace llmc::graph {
namespace {

std::vector<std::string> names(Graph& graph, const std::string& region) {
  std::vector<std::string> result;
  for (const Op& op : graph.region(region)->ops) result.push_back(op.name);
  return result;
}

TEST(Gradients, EveryForwardOpHasItsBackward) {
  Graph graph = differentiate(build_llama(small_spec().spec, 2));
  verify(graph, "differentiate");
  const std::vector<std::string> layer = names(graph, "layer_backward");
  for (const char* name : {"down_wgrad", "down_bgrad", "down_dgrad", "swiglu_backward", "gate_up_wgrad", "gate_up_bgrad",
                           "gate_up_dgrad", "mlp_norm_backward", "o_wgrad", "o_bgrad", "o_dgrad", "attention_backward",
                           "rope_backward", "qkv_wgrad", "qkv_bgrad", "qkv_dgrad", "attention_norm_backward"})
    EXPECT_EQ(std::count(layer.begin(), layer.end(), name), 1) << name;
  // Two uses of the stream in each half of a layer: one sum each.
  EXPECT_EQ(std::count_if(graph.region("layer_backward")->ops.begin(), graph.region("layer_backward")->ops.end(),
                          [](const Op& op) { return op.kind == OpKind::add; }),
            2);
}

TEST(Gradients, BackwardRunsFromTheLossToTheEmbedding) {
  Graph graph = differentiate(build_llama(small_spec().spec, 2));
  std::vector<std::string> order;
  for (const Region& region : graph.regions) order.push_back(region.name);
  EXPECT_EQ(order, (std::vector<std::string>{"embed", "layer_forward", "head", "head_backward", "layer_backward",
                                             "embed_backward"}));
  EXPECT_EQ(graph.region("layer_backward")->loop, Loop::layers_down);
}

TEST(Gradients, WithoutBiasesNoColumnSums) {
  Graph graph = differentiate(build_llama(small_spec({"model.attention_bias=false", "model.mlp_bias=false"}).spec, 2));
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) EXPECT_NE(op.kind, OpKind::column_sum) << op.name;
}

TEST(Gradients, ATiedTableGetsBothGradients) {
  Graph graph = differentiate(build_llama(small_spec({"model.tie_word_embeddings=true"}).spec, 2));
  const TensorId gradient = graph.at(graph.find("embed_weight")).partner;
  int writers = 0;
  for (const Region& region : graph.regions)
    for (const Op& op : region.ops) writers += static_cast<int>(std::count(op.outputs.begin(), op.outputs.end(), gradient));
  EXPECT_EQ(writers, 2);
  EXPECT_EQ(graph.find("lm_head_weight"), kNone);
}

TEST(Gradients, AnOpWithoutARuleIsAnInternalError) {
  Graph graph = build_llama(small_spec().spec, 2);
  graph.region("layer_forward")->ops.front().kind = OpKind::gather_rows;
  try {
    differentiate(std::move(graph));
    FAIL() << "no error";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::internal);
    EXPECT_NE(std::string(failure.what()).find("gather_rows"), std::string::npos) << failure.what();
  }
}

}  // namespace
}  // namespace llmc::graph
