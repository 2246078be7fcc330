// The verifier finds every kind of damage and its location.
#include "compiler/passes/check_graph.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "by_name.h"
#include "error.h"
#include "small_graph.h"

namespace llmc::passes {
namespace {

using namespace graph;

Op& op(Graph& graph, const std::string& in, const std::string& name) {
  std::vector<Op>& ops = region(graph, in).ops;
  const auto at = std::find_if(ops.begin(), ops.end(), [&](const Op& o) { return o.name == name; });
  if (at == ops.end()) throw std::runtime_error("no op " + name + " in " + in);
  return *at;
}

struct Damage {
  const char* what;
  std::function<void(Graph&)> inflict;
  std::vector<std::string> message;  // required parts of the message
};

void erase(Graph& graph, const std::string& in, const std::string& name) {
  std::vector<Op>& ops = region(graph, in).ops;
  op(graph, in, name);
  ops.erase(std::find_if(ops.begin(), ops.end(), [&](const Op& o) { return o.name == name; }));
}

const std::vector<Damage>& damages() {
  static const std::vector<Damage> all = {
      {"an op is gone, its result is read",
       [](Graph& g) { erase(g, "layer_forward", "attention_norm"); },
       {"layer_forward", "%attention_norm_out before"}},
      {"two ops change places",
       [](Graph& g) { std::swap(op(g, "layer_forward", "swiglu"), op(g, "layer_forward", "down")); },
       {"down", "%swiglu_out before"}},
      {"a name is taken twice",
       [](Graph& g) { op(g, "layer_forward", "rope").name = "attention"; },
       {"layer_forward", "op `attention", "name is taken"}},
      {"an input is missing",
       [](Graph& g) { op(g, "layer_forward", "swiglu").inputs.clear(); },
       {"swiglu", "takes 1 inputs and 1 outputs"}},
      {"an output is missing",
       [](Graph& g) { op(g, "layer_forward", "attention_norm").outputs.pop_back(); },
       {"takes 2 inputs and 2 outputs"}},
      {"a flag without its operand",
       [](Graph& g) { op(g, "layer_forward", "o").as<ops::LinearAttributes>().residual = false; },
       {"takes 3 inputs and 1 outputs"}},
      {"an operand without its flag",
       [](Graph& g) { op(g, "layer_forward", "qkv").as<ops::LinearAttributes>().bias = false; },
       {"takes 2 inputs and 1 outputs"}},
      {"attributes of another kind",
       [](Graph& g) { op(g, "layer_forward", "qkv").attributes = ops::RmsNormAttributes{}; },
       {"op qkv", "attributes", "linear"}},
      {"a weight has the wrong width",
       [](Graph& g) { g.at(find(g, "down_weight_bf16")).cols += 1; },
       {"down", "differ in width"}},
      {"a result has the wrong width",
       [](Graph& g) { g.at(find(g, "qkv_raw")).cols += 1; },
       {"qkv", "result %qkv_raw is [48, 101], not [48, 100]"}},
      {"a residual has the wrong shape",
       [](Graph& g) { op(g, "layer_forward", "o").inputs.back() = find(g, "qkv"); },
       {"%qkv is [48, 100] but %x_mid is [48, 36]"}},
      {"a norm's weight has the wrong width",
       [](Graph& g) { g.at(find(g, "mlp_norm_weight")).cols = 35; },
       {"mlp_norm", "rstd a row"}},
      {"a bias has the wrong length", [](Graph& g) { g.at(find(g, "qkv_bias_bf16")).cols = 99; }, {"qkv", "one bias"}},
      {"a RoPE table of another head", [](Graph& g) { g.at(find(g, "rope_table")).cols = 8; }, {"rope", "one head"}},
      {"a weight gradient in bf16",
       [](Graph& g) { g.at(find(g, "d_down_weight")).dtype = DType::bf16; },
       {"down_wgrad", "fp32"}},
      {"a weight gradient of the wrong shape",
       [](Graph& g) { std::swap(g.at(find(g, "d_down_weight")).rows, g.at(find(g, "d_down_weight")).cols); },
       {"down_wgrad", "[columns of dy", "columns of x]"}},
      {"nothing writes a gradient",
       [](Graph& g) { erase(g, "layer_backward", "down_wgrad"); },
       {"gradient of %down_weight"}},
      {"a tied head's gradient is forgotten",
       [](Graph& g) { erase(g, "loss_chunk", "lm_head_wgrad"); },
       {"gradient of %lm_head_weight"}},
      {"an op writes a weight",
       [](Graph& g) { op(g, "layer_forward", "down").outputs[0] = find(g, "o_weight"); },
       {"down"}},
      {"a copy is made of another weight",
       [](Graph& g) { g.at(find(g, "o_weight_bf16")).partner = find(g, "qkv_weight"); },
       {"%o_weight_bf16", "copy of %qkv_weight"}},
      {"nothing makes the copies of a type",
       [](Graph& g) { g.at(g.host(Use::copies)).dtype = DType::f32; },
       {"nothing produces %"}},
      {"an op writes an input of the host",
       [](Graph& g) { op(g, "layer_backward", "o_bgrad").outputs[0] = find(g, "tokens"); },
       {"writes %tokens"}},
      {"what was overwritten is read",
       [](Graph& g) { op(g, "layer_forward", "attention").inputs[0] = find(g, "qkv_raw"); },
       {"reads %qkv_raw, which %qkv has overwritten"}},
      {"the backward pass reads what no layer keeps",
       [](Graph& g) {
         std::vector<TensorId>& saved = region(g, "layer_backward").saved;
         saved.erase(std::find(saved.begin(), saved.end(), find(g, "swiglu_out")));
       },
       {"layer_backward", "%swiglu_out before"}},
      {"a loss for another number of tokens",
       [](Graph& g) { g.at(find(g, "losses")).cols = 47; },
       {"cross_entropy", "result a token"}},
      {"the reduction's result is lost",
       [](Graph& g) { erase(g, "layer_backward", "attention_norm_backward_reduce"); },
       {"gradient of %attention_norm_weight"}},
  };
  return all;
}

TEST(Verify, AcceptsWhatThePassesMake) {
  for (const char* recompute : {"none", "full", "{every: 2}", "[norms, swiglu]", "[qkv, attention, residual, gate_up]"})
    for (const char* compute : {"fp32", "bf16"})
      EXPECT_NO_THROW(
          lowered({std::string("memory.recompute=") + recompute, std::string("precision.compute=") + compute}));
}

TEST(Verify, FindsEveryKindOfDamage) {
  for (const Damage& damage : damages()) {
    SCOPED_TRACE(damage.what);
    Graph graph = lowered();
    check_graph(graph, "lower");
    damage.inflict(graph);
    try {
      check_graph(graph, "the_pass");
      ADD_FAILURE() << "not found";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::internal);
      const std::string message = failure.what();
      EXPECT_NE(message.find("after pass the_pass"), std::string::npos) << message;
      for (const std::string& part : damage.message) EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace llmc::passes
