#include "compiler/graph/llama.h"

#include <algorithm>

#include "compiler/graph/optimizer_state.h"
#include "device/types.h"

namespace llmc::graph {
namespace {

// Indices into Graph::groups. Matrices have weight decay; the embedding and all vectors have none.
constexpr int kHead = 1, kEmbedding = 2, kVectors = 3;

ops::Heads heads_of(const spec::Model& m) { return {m.num_attention_heads, m.num_key_value_heads, m.head_dim}; }

/// A factor of q that is 1 in the whole sequence is none.
ops::RopeAttributes rope_of(const spec::Spec& spec) {
  const spec::RopeScaling& scaling = spec.model.rope_scaling;
  const std::int64_t original = scaling.original_max_position_embeddings;
  const bool scales = scaling.type == spec::RopeType::yarn && spec.batch.sequence_length > original;
  return {.heads = heads_of(spec.model),
          .rotary = spec.model.rotary_dim(),
          .interleaved = spec.model.rope_interleaved,
          .beta = scales ? scaling.llama_4_scaling_beta : 0,
          .original = scales ? original : 0,
          .resets = spec.data.documents.reset_positions};
}

/// Adds tensors and ops of one region.
class Builder {
 public:
  Builder(Graph& graph, Region& region) : graph_(graph), region_(region) {
    scope_ = region.block == Block::layer ? Scope::layer : Scope::step;
  }

  /// Adds a tensor with one row per token.
  TensorId activation(const std::string& name, std::int64_t cols) {
    return graph_.add({.name = name, .rows = graph_.tokens(), .cols = cols, .scope = scope_, .axis = Axis::token});
  }

  /// Adds a tensor with one number per token.
  TensorId statistic(const std::string& name) {
    return graph_.add({.name = name, .rows = 1, .cols = graph_.tokens(), .scope = scope_, .axis = Axis::token});
  }

  TensorId scratch(const std::string& name, std::int64_t rows, std::int64_t cols, Role role = Role::activation) {
    return graph_.add({.name = name, .rows = rows, .cols = cols, .role = role, .scope = scope_});
  }

  /// Adds the tensor at which the region reads or writes the residual stream.
  TensorId stream(const std::string& name, std::int64_t cols, TensorId ResidualStream::* place) {
    const TensorId id = activation(name, cols);
    graph_.at(id).scope = Scope::boundary;
    return graph_.stream.*place = id;
  }

  /// Adds a matrix that stacks the pieces' rows, and its gradient.
  TensorId matrix(const std::string& name, std::int64_t cols, std::vector<ParameterPiece> pieces) {
    std::int64_t rows = 0;
    for (ParameterPiece& piece : pieces) piece.begin = rows, rows += piece.size;
    return parameter(name, rows, cols, std::move(pieces));
  }

  /// Adds a vector that concatenates the pieces, without weight decay, and its gradient.
  TensorId vector(const std::string& name, std::vector<ParameterPiece> pieces, std::int64_t halves = 1) {
    std::int64_t cols = 0;
    for (ParameterPiece& piece : pieces)
      piece.begin = cols, cols += piece.size, piece.matrix = false, piece.group = kVectors;
    return parameter(name, 1, cols, std::move(pieces), halves);
  }

  Op& op(OpKind kind, const std::string& name, std::vector<TensorId> inputs, std::vector<TensorId> outputs,
         RecomputeGroup group = RecomputeGroup::rest) {
    region_.ops.push_back({.kind = kind,
                           .name = name,
                           .inputs = std::move(inputs),
                           .outputs = std::move(outputs),
                           .id = graph_.next_op++,
                           .group = group});
    return region_.ops.back();
  }

  /// Adds the weight of a norm; without weights it is a constant of ones.
  TensorId norm_weight(const std::string& name, std::vector<ParameterPiece> pieces, spec::NormWeight kind,
                       std::int64_t halves = 1) {
    if (kind == spec::NormWeight::none) return graph_.host(Use::ones);
    for (ParameterPiece& piece : pieces)
      piece.init = kind == spec::NormWeight::one_plus ? InitClass::zeros : InitClass::ones;
    return vector(name, std::move(pieces), halves);
  }

  TensorId rms_norm(const std::string& name, TensorId x, const std::string& piece, const spec::Model& m) {
    const std::int64_t cols = graph_.at(x).cols;
    const TensorId weight = norm_weight(name + "_weight", {{.name = piece, .size = cols}}, m.norm_weight);
    const TensorId y = activation(name + "_out", cols);
    op(OpKind::rms_norm, name, {x, weight}, {y, statistic(name + "_rstd")}, RecomputeGroup::norms).attributes =
        ops::RmsNormAttributes{.eps = m.rms_norm_eps, .weight = m.norm_weight};
    return y;
  }

  /// Adds the first values of the stream: rows of the table, or their norm, which has no weights.
  void embed(TensorId table, const spec::Model& m) {
    const std::int64_t hidden = graph_.at(table).cols;
    const TensorId rows = m.embedding_norm ? activation("embed_out", hidden) : kNone;
    const TensorId first = stream("x_first", hidden, &ResidualStream::first);
    op(OpKind::embedding, "embed", {graph_.host(Use::tokens), table}, {m.embedding_norm ? rows : first}).attributes =
        ops::ScaleAttributes{m.embedding_multiplier};
    if (!m.embedding_norm) return;
    op(OpKind::rms_norm, "embed_norm", {rows, graph_.host(Use::ones)}, {first, statistic("embed_norm_rstd")})
        .attributes = ops::RmsNormAttributes{.eps = m.rms_norm_eps, .weight = spec::NormWeight::none};
  }

  /// Adds the operand of a block's first product: the stream's norm, or the stream itself in the compute dtype. An
  /// empty `piece`: no norm.
  TensorId operand(const std::string& name, TensorId x, const std::string& piece, const spec::Spec& spec) {
    if (!piece.empty()) return rms_norm(name + "_norm", x, piece, spec.model);
    if (spec.residual == spec.compute) return x;
    const TensorId y = activation(name + "_in", graph_.at(x).cols);
    op(OpKind::round_stream, name + "_round", {x}, {y}, RecomputeGroup::norms);
    return y;
  }

  /// Adds what a block adds to the stream: its result, or the norm of that. An empty `piece`: no norm.
  TensorId addend(const std::string& name, TensorId result, const std::string& piece, const spec::Model& m) {
    return piece.empty() ? result : rms_norm(name + "_out_norm", result, piece, m);
  }

  /// Rotates the heads of q and k by their positions, and normalises each before or after it if qk_norm is set.
  TensorId turn_heads(TensorId qkv, TensorId table, const ops::Heads& heads, const spec::Spec& spec) {
    const spec::Model& m = spec.model;
    const ops::RopeAttributes rope = rope_of(spec);
    const bool after_rope = m.qk_norm_place == spec::QkNormPlace::after_rope;
    if (!m.qk_norm) return rotate(qkv, "qkv", table, rope, RecomputeGroup::qkv);
    if (rope.whole()) return norm_heads(qkv, "qkv", table, heads, spec);
    // Kernels of both rotate whole heads, so that each has its own.
    const TensorId ones = graph_.host(Use::ones);
    if (after_rope)
      return norm_heads(rotate(qkv, "qkv_rotated", table, rope, RecomputeGroup::qkv), "qkv", ones, heads, spec);
    return rotate(norm_heads(qkv, "qkv_normed", ones, heads, spec), "qkv", table, rope, RecomputeGroup::norms);
  }

  /// `inputs`, then the first token of each token's document if positions begin anew there.
  std::vector<TensorId> with_documents(std::vector<TensorId> inputs, bool resets) {
    if (resets) inputs.push_back(graph_.host(Use::document_begin));
    return inputs;
  }

  TensorId rotate(TensorId qkv, const std::string& result, TensorId table, const ops::RopeAttributes& attributes,
                  RecomputeGroup group) {
    const TensorId y = activation(result, attributes.heads.columns());
    op(OpKind::rope, "rope", with_documents({qkv, table}, attributes.resets), {y}, group).attributes = attributes;
    return y;
  }

  /// Normalises the heads of q and k, and rotates them by `table`, unless this is the constant of ones.
  TensorId norm_heads(TensorId qkv, const std::string& result, TensorId table, const ops::Heads& heads,
                      const spec::Spec& spec) {
    const spec::Model& m = spec.model;
    const bool alone = graph_.at(table).use == Use::ones, resets = !alone && spec.data.documents.reset_positions;
    const TensorId y = activation(result, heads.columns());
    const bool width = m.qk_norm_over == spec::QkNormOver::width;
    const std::int64_t q = width ? heads.query * heads.dim : heads.dim, k = width ? heads.key * heads.dim : heads.dim;
    const TensorId weight =
        norm_weight("qk_norm_weight",
                    {{.name = "self_attn.q_norm.weight", .size = q}, {.name = "self_attn.k_norm.weight", .size = k}},
                    m.norm_weight, width ? 1 : 2);
    const TensorId rstd = scratch("qk_norm_rstd", graph_.tokens(), width ? 2 : heads.query + heads.key);
    op(OpKind::qk_norm_rope, "qk_norm_rope", with_documents({qkv, weight, table}, resets), {y, rstd},
       RecomputeGroup::norms)
        .attributes = ops::QkNormRopeAttributes{.heads = heads,
                                                .eps = m.rms_norm_eps,
                                                .rotates = !alone,
                                                .alone = alone,
                                                .width = width,
                                                .resets = resets,
                                                .after_rope = m.qk_norm_place == spec::QkNormPlace::after_rope,
                                                .weight = m.norm_weight};
    return y;
  }

  /// Adds attention over the heads of rotated rows.
  TensorId attend(TensorId rotated, const ops::Heads& heads, const spec::Spec& spec) {
    const double multiplier = spec.model.attention_multiplier;
    const bool documents = spec.data.documents.mask;
    std::vector<TensorId> inputs = {rotated};
    if (documents) inputs.insert(inputs.end(), {graph_.host(Use::document_begin), graph_.host(Use::document_end)});
    const TensorId y = activation("attention_out", heads.query * heads.dim);
    const TensorId lse = scratch("attention_lse", graph_.batch * heads.query, graph_.sequence);
    op(OpKind::attention, "attention", std::move(inputs), {y, lse}, RecomputeGroup::attention).attributes =
        ops::AttentionAttributes{.heads = heads,
                                 .multiplier = multiplier == usual_attention_multiplier(spec.model) ? 0 : multiplier,
                                 .documents = documents,
                                 .softcap = spec.model.attn_logit_softcapping};
    return y;
  }

  /// Adds the MLP up to its activation, times a gate if it has one.
  TensorId activate(TensorId x, const spec::Model& m) {
    std::vector<ParameterPiece> pieces = {
        {.name = "mlp.up_proj", .size = m.intermediate_size, .init = InitClass::linear}};
    if (m.mlp_gated)
      pieces.insert(pieces.begin(), {.name = "mlp.gate_proj", .size = m.intermediate_size, .init = InitClass::linear});
    const std::string name = m.mlp_gated ? "gate_up" : "up";
    const TensorId in =
        linear(name, x, pieces, m.mlp_bias, name + "_out", RecomputeGroup::gate_up, m.mlp_gated ? 2 : 1);
    const std::string act = m.mlp_gated ? "swiglu" : "activation";
    const TensorId y = activation(act + "_out", m.intermediate_size);
    op(OpKind::swiglu, act, {in}, {y}, RecomputeGroup::swiglu).attributes =
        ops::SwigluAttributes{m.hidden_act, m.mlp_gated};
    return y;
  }

  /// Adds a linear layer. `pieces`: names without ".weight" and ".bias", and each one's columns of the result.
  TensorId linear(const std::string& name, TensorId x, const std::vector<ParameterPiece>& pieces, bool bias,
                  const std::string& result, RecomputeGroup group = RecomputeGroup::rest, std::int64_t halves = 1,
                  double scale = 1) {
    std::vector<ParameterPiece> weights = pieces, biases = pieces;
    for (ParameterPiece& piece : weights) piece.name += ".weight";
    for (ParameterPiece& piece : biases) piece.name += ".bias", piece.init = InitClass::zeros;
    std::vector<TensorId> inputs = {x, matrix(name + "_weight", graph_.at(x).cols, std::move(weights))};
    const std::int64_t columns = graph_.at(inputs[1]).rows;
    if (bias) inputs.push_back(vector(name + "_bias", std::move(biases)));
    const TensorId y = activation(result, columns);
    graph_.at(y).halves = halves;
    op(OpKind::linear, name, std::move(inputs), {y}, group).attributes =
        ops::LinearAttributes{.bias = bias, .scale = scale};
    return y;
  }

 private:
  TensorId parameter(const std::string& name, std::int64_t rows, std::int64_t cols, std::vector<ParameterPiece> pieces,
                     std::int64_t halves = 1) {
    const TensorId weight = scratch(name, rows, cols, Role::parameter),
                   gradient = scratch("d_" + name, rows, cols, Role::gradient);
    for (TensorId id : {weight, gradient}) graph_.at(id).halves = halves;
    graph_.at(weight).partner = gradient;
    graph_.at(weight).pieces = std::move(pieces);
    graph_.at(weight).block = region_.block;
    graph_.at(gradient).partner = weight;
    return weight;
  }

  Graph& graph_;
  Region& region_;
  Scope scope_;
};

/// Names of a layer's norms, as in transformers: pre in Llama, post in OLMo 2, sandwich in Gemma. Empty: no such norm.
struct NormNames {
  const char *of_x, *of_attention, *of_middle, *of_mlp;
};

NormNames norm_names(spec::NormPlace place) {
  constexpr const char *kInput = "input_layernorm.weight", *kPostAttention = "post_attention_layernorm.weight",
                       *kPreMlp = "pre_feedforward_layernorm.weight", *kPostMlp = "post_feedforward_layernorm.weight";
  switch (place) {
    case spec::NormPlace::post: return {"", kPostAttention, "", kPostMlp};
    case spec::NormPlace::sandwich: return {kInput, kPostAttention, kPreMlp, kPostMlp};
    case spec::NormPlace::pre: break;
  }
  return {kInput, "", kPostAttention, ""};
}

/// Initial values of a matrix that writes to the residual stream.
InitClass residual_init(const spec::Spec& spec, const char* name) {
  return std::ranges::count(spec.init.zero, name) ? InitClass::zeros : InitClass::residual;
}

/// Columns of the widest norm.
std::int64_t widest_norm(const spec::Model& m) {
  const std::int64_t heads =
      m.qk_norm_over == spec::QkNormOver::width ? m.num_attention_heads + m.num_key_value_heads : 1;
  return std::max(m.hidden_size, heads * m.head_dim);
}

void add_host_tensors(Graph& g, const spec::Spec& spec) {
  const bool documents = spec.data.documents.mask;
  const auto input = [&](const char* name, Use use, std::int64_t cols, Axis axis = Axis::other) {
    g.add({.name = name, .dtype = DType::i32, .rows = 1, .cols = cols, .role = Role::input, .axis = axis, .use = use});
  };
  const std::int64_t tokens = g.tokens();
  g.add_records("scalars", Use::scalars, Role::input, "StepScalars", sizeof(StepScalars));
  input("tokens", Use::tokens, tokens, Axis::token);
  input("targets", Use::targets, tokens, Axis::token);
  input("embedding_order", Use::embedding_order, tokens);
  input("run_begin", Use::run_begin, tokens + 1);
  input("run_token", Use::run_token, tokens);
  input("run_count", Use::run_count, 1);
  if (documents) {
    input("document_begin", Use::document_begin, tokens);
    input("document_end", Use::document_end, tokens);
  }
  input("positions", Use::positions, g.batch);
  for (const auto& [name, use] : {std::pair("masters", Use::masters), std::pair("gradients", Use::gradients)})
    g.add({.name = name, .rows = 1, .cols = 1, .role = Role::flat, .use = use});  // sized when parameters have offsets
  g.add_records("chunks", Use::chunks, Role::constant, "Chunk", sizeof(Chunk));
  const auto table = [&](const char* name, Use use) {
    g.add({.name = name, .rows = g.sequence, .cols = spec.model.rotary_dim(), .role = Role::constant, .use = use});
  };
  table("rope_table", Use::rope_table);
  if (std::ranges::any_of(g.kinds, &LayerKind::local_rope)) table("local_rope_table", Use::local_rope_table);
  const bool norms_alone = spec.model.qk_norm && !rope_of(spec).whole();
  if (spec.model.norm_weight == spec::NormWeight::none || spec.model.embedding_norm || norms_alone)
    g.add({.name = "ones", .rows = 1, .cols = widest_norm(spec.model), .role = Role::constant, .use = Use::ones});
  g.add_records("results", Use::results, Role::output, "StepResults", sizeof(StepResults));
  if (spec.has_loss_scale()) g.add_records("loss_scale", Use::loss_scale, Role::output, "LossScale", sizeof(LossScale));
}

/// Adds the losses of the targets and what a step reports of them.
void add_loss(Graph& g, Builder& h, TensorId logits, const spec::Spec& spec) {
  const double z = spec.loss.z;
  const TensorId losses = g.add({.name = "losses",
                                 .rows = 1,
                                 .cols = g.tokens(),
                                 .role = Role::output,
                                 .axis = Axis::token,
                                 .use = Use::losses}),
                 logits_lse = h.statistic("logits_lse"), entropies = h.statistic("entropies"),
                 correct = h.statistic("correct");
  std::vector<TensorId> inputs = {logits, g.host(Use::targets), g.host(Use::scalars)};
  if (spec.has_loss_scale()) inputs.push_back(g.host(Use::loss_scale));
  h.op(OpKind::cross_entropy, "cross_entropy", std::move(inputs), {losses, logits_lse, entropies, correct}).attributes =
      ops::CrossEntropyAttributes{.z = z, .softcap = spec.model.final_logit_softcapping};
  h.op(OpKind::loss_sum, "loss_sum", {losses, logits_lse, entropies, correct, g.host(Use::scalars)},
       {g.host(Use::results)});
  if (z > 0) {
    const ops::ZLossAttributes attributes = {z, g.add_report("z_loss")};
    h.op(OpKind::z_loss, "z_loss", {logits_lse, g.host(Use::scalars)}, {g.host(Use::reports)}).attributes = attributes;
  }
}

}  // namespace

void give_kind(const Graph& graph, Region& region, const LayerKind& kind) {
  const TensorId table = graph.host(kind.local_rope ? Use::local_rope_table : Use::rope_table);
  for (Op& op : region.ops) {
    for (TensorId& input : op.inputs)
      if (const Use use = graph.at(input).use; use == Use::rope_table || use == Use::local_rope_table) input = table;
    if (auto* attention = std::get_if<ops::AttentionAttributes>(&op.attributes)) attention->window = kind.window;
    if (auto* rope = std::get_if<ops::RopeAttributes>(&op.attributes)) rope->rotates = kind.rope;
    if (auto* norm = std::get_if<ops::QkNormRopeAttributes>(&op.attributes)) norm->rotates = kind.rope && !norm->alone;
    if (auto* norm = std::get_if<ops::QkNormRopeBackwardAttributes>(&op.attributes))
      norm->rotates = kind.rope && !norm->alone;
  }
}

Graph build_llama(const spec::Spec& spec, const std::vector<LayerKind>& kinds, std::int64_t micro_batch) {
  const spec::Model& m = spec.model;
  Graph g;
  g.batch = micro_batch;
  g.sequence = spec.batch.sequence_length;
  g.kinds = kinds;
  g.variants.assign(kinds.size(), 0);
  const std::int64_t hidden = m.hidden_size;
  const ops::Heads heads = heads_of(m);
  const std::int64_t q = heads.query * heads.dim, kv = heads.key * heads.dim;
  g.groups = {{"matrices", ParameterRole::matrices},
              {"head", ParameterRole::head},
              {"embedding", ParameterRole::embedding},
              {"norms, biases", ParameterRole::vectors}};
  add_host_tensors(g, spec);

  Region embed{.name = "embed", .block = Block::embed, .writes = &ResidualStream::first};
  Builder e(g, embed);
  const TensorId table = e.matrix(
      "embed_weight", hidden,
      {{.name = "model.embed_tokens.weight", .size = m.vocab_size, .init = InitClass::embedding, .group = kEmbedding}});
  e.embed(table, m);

  Region layer{.name = "layer_forward",
               .block = Block::layer,
               .loop = Loop::layers_up,
               .reads = &ResidualStream::below,
               .writes = &ResidualStream::above};
  Builder b(g, layer);
  const TensorId x = b.stream("x", hidden, &ResidualStream::below);
  const NormNames norms = norm_names(m.norm_place);
  const TensorId normed = b.operand("attention", x, norms.of_x, spec);
  const TensorId qkv = b.linear("qkv", normed,
                                {{.name = "self_attn.q_proj", .size = q, .init = InitClass::linear},
                                 {.name = "self_attn.k_proj", .size = kv, .init = InitClass::linear},
                                 {.name = "self_attn.v_proj", .size = kv, .init = InitClass::linear}},
                                m.attention_bias, "qkv_raw", RecomputeGroup::qkv);
  const TensorId rotated = b.turn_heads(qkv, g.host(Use::rope_table), heads, spec);
  const TensorId attended = b.attend(rotated, heads, spec);
  const TensorId projected =
      b.linear("o", attended, {{.name = "self_attn.o_proj", .size = hidden, .init = residual_init(spec, "o_proj")}},
               m.attention_out_bias, "o_out", RecomputeGroup::residual, 1, m.residual_multiplier);
  const TensorId middle = b.activation("x_mid", hidden);
  b.op(OpKind::add, "attention_residual", {x, b.addend("attention", projected, norms.of_attention, m)}, {middle});
  const TensorId normed2 = b.operand("mlp", middle, norms.of_middle, spec);
  const TensorId gated = b.activate(normed2, m);
  const TensorId down =
      b.linear("down", gated, {{.name = "mlp.down_proj", .size = hidden, .init = residual_init(spec, "down_proj")}},
               m.mlp_bias, "down_out", RecomputeGroup::down, 1, m.residual_multiplier);
  const TensorId added = b.addend("mlp", down, norms.of_mlp, m);
  b.op(OpKind::add, "mlp_residual", {middle, added}, {b.stream("x_next", hidden, &ResidualStream::above)});
  give_kind(g, layer, kinds.front());

  Region head{.name = "head", .block = Block::head, .reads = &ResidualStream::last};
  Builder h(g, head);
  const TensorId last = h.stream("x_last", hidden, &ResidualStream::last);
  const TensorId features = h.rms_norm("final_norm", last, "model.norm.weight", m);
  const TensorId logits = h.activation("logits", m.vocab_size);
  const TensorId head_weight =
      m.tie_word_embeddings
          ? table
          : h.matrix("lm_head_weight", hidden,
                     {{.name = "lm_head.weight", .size = m.vocab_size, .init = InitClass::embedding, .group = kHead}});
  h.op(OpKind::linear, "lm_head", {features, head_weight}, {logits}).attributes =
      ops::LinearAttributes{.scale = 1 / m.logits_scaling};
  add_loss(g, h, logits, spec);

  g.regions = {std::move(embed), std::move(layer), std::move(head)};
  choose_optimizers(g, spec);
  return g;
}

}  // namespace llmc::graph
