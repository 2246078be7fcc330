#include "compiler/graph/llama.h"

namespace llmc::graph {
namespace {

/// Adds tensors and ops of one region.
class Builder {
 public:
  Builder(Graph& graph, Region& region, Scope scope) : graph_(graph), region_(region), scope_(scope) {}

  TensorId activation(const std::string& name, std::int64_t rows, std::int64_t cols) {
    return graph_.add({.name = name, .rows = rows, .cols = cols, .scope = scope_});
  }

  /// A weight or bias and its gradient.
  TensorId parameter(const std::string& name, std::int64_t rows, std::int64_t cols) {
    const TensorId weight =
        graph_.add({.name = name, .rows = rows, .cols = cols, .role = Role::parameter, .scope = scope_});
    const TensorId gradient =
        graph_.add({.name = "d_" + name, .rows = rows, .cols = cols, .role = Role::gradient, .scope = scope_});
    graph_.at(weight).partner = gradient;
    graph_.at(gradient).partner = weight;
    return weight;
  }

  void op(OpKind kind, const std::string& name, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
    region_.ops.push_back({.kind = kind, .name = name, .inputs = std::move(inputs), .outputs = std::move(outputs)});
  }

  TensorId rms_norm(const std::string& name, TensorId x, TensorId weight) {
    const TensorId y = activation(name + "_out", graph_.at(x).rows, graph_.at(x).cols);
    const TensorId rstd = activation(name + "_rstd", 1, graph_.at(x).rows);
    op(OpKind::rms_norm, name, {x, weight}, {y, rstd});
    return y;
  }

  TensorId linear(const std::string& name, TensorId x, std::int64_t out_features, bool bias, const std::string& result) {
    const TensorId weight = parameter(name + "_weight", out_features, graph_.at(x).cols);
    std::vector<TensorId> inputs = {x, weight};
    if (bias) inputs.push_back(parameter(name + "_bias", 1, out_features));
    const TensorId y = activation(result, graph_.at(x).rows, out_features);
    op(OpKind::linear, name, std::move(inputs), {y});
    region_.ops.back().bias = bias;
    return y;
  }

  TensorId add(const std::string& name, TensorId a, TensorId b, const std::string& result) {
    const TensorId sum = activation(result, graph_.at(a).rows, graph_.at(a).cols);
    op(OpKind::add, name, {a, b}, {sum});
    return sum;
  }

 private:
  Graph& graph_;
  Region& region_;
  Scope scope_;
};

}  // namespace

Graph build_llama(const spec::Spec& spec, std::int64_t micro_batch) {
  const spec::Model& m = spec.model;
  Graph g;
  g.batch = micro_batch;
  g.sequence = spec.batch.sequence_length;
  g.layers = m.num_hidden_layers;
  g.heads = m.num_attention_heads;
  g.kv_heads = m.num_key_value_heads;
  g.head_dim = m.head_dim;
  g.eps = m.rms_norm_eps;
  const std::int64_t tokens = g.tokens(), hidden = m.hidden_size;
  const std::int64_t q_width = g.heads * g.head_dim, qkv_width = (g.heads + 2 * g.kv_heads) * g.head_dim;

  const auto host = [&](const char* name, std::int64_t cols) {
    return g.add({.name = name, .dtype = DType::i32, .rows = 1, .cols = cols, .role = Role::input});
  };
  const TensorId token_ids = host("tokens", tokens), targets = host("targets", tokens);
  host("embedding_order", tokens);
  host("run_begin", tokens + 1);
  host("run_token", tokens);
  host("run_count", 1);
  host("positions", micro_batch);
  const TensorId rope_table =
      g.add({.name = "rope_table", .rows = g.sequence, .cols = g.head_dim, .role = Role::constant});

  Region embed{.name = "embed"};
  Builder start(g, embed, Scope::step);
  const TensorId table = start.parameter("embed_weight", m.vocab_size, hidden);
  const TensorId embedded = start.activation("x_first", tokens, hidden);
  start.op(OpKind::embedding, "embed", {token_ids, table}, {embedded});

  Region layer{.name = "layer_forward", .loop = Loop::layers_up};
  for (std::int64_t l = 0; l < g.layers; ++l) layer.layers.push_back(l);
  Builder b(g, layer, Scope::layer);
  const TensorId x = b.activation("x", tokens, hidden);
  const TensorId attention_norm = b.parameter("attention_norm_weight", 1, hidden);
  const TensorId normed = b.rms_norm("attention_norm", x, attention_norm);
  const TensorId qkv = b.linear("qkv", normed, qkv_width, m.attention_bias, "qkv_raw");
  const TensorId rotated = b.activation("qkv", tokens, qkv_width);
  b.op(OpKind::rope, "rope", {qkv, rope_table}, {rotated});
  const TensorId attended = b.activation("attention_out", tokens, q_width);
  const TensorId lse = b.activation("attention_lse", micro_batch * g.heads, g.sequence);
  b.op(OpKind::attention, "attention", {rotated}, {attended, lse});
  const TensorId projected = b.linear("o", attended, hidden, m.attention_bias, "o_out");
  const TensorId middle = b.add("attention_residual", x, projected, "x_mid");
  const TensorId mlp_norm = b.parameter("mlp_norm_weight", 1, hidden);
  const TensorId normed2 = b.rms_norm("mlp_norm", middle, mlp_norm);
  const TensorId gate_up = b.linear("gate_up", normed2, 2 * m.intermediate_size, m.mlp_bias, "gate_up_out");
  const TensorId gated = b.activation("swiglu_out", tokens, m.intermediate_size);
  b.op(OpKind::swiglu, "swiglu", {gate_up}, {gated});
  const TensorId down = b.linear("down", gated, hidden, m.mlp_bias, "down_out");
  const TensorId y = b.add("mlp_residual", middle, down, "x_next");

  Region head{.name = "head"};
  Builder h(g, head, Scope::step);
  const TensorId last = h.activation("x_last", tokens, hidden);
  const TensorId final_norm = h.parameter("final_norm_weight", 1, hidden);
  const TensorId features = h.rms_norm("final_norm", last, final_norm);
  const TensorId logits = h.activation("logits", tokens, m.vocab_size);
  const TensorId head_weight = m.tie_word_embeddings ? table : h.parameter("lm_head_weight", m.vocab_size, hidden);
  h.op(OpKind::linear, "lm_head", {features, head_weight}, {logits});
  const TensorId losses = h.activation("losses", 1, tokens);
  h.op(OpKind::cross_entropy, "cross_entropy", {logits, targets}, {losses});
  const TensorId loss = h.activation("loss", 1, 1);
  h.op(OpKind::loss_sum, "loss_sum", {losses}, {loss});

  g.stream_in = x;
  g.stream_out = y;
  g.stream_final = last;
  g.regions = {std::move(embed), std::move(layer), std::move(head)};
  return g;
}

}  // namespace llmc::graph
