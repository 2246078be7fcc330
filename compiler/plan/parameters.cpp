#include "compiler/plan/parameters.h"

#include <fmt/format.h>

#include <cmath>

#include "error.h"

namespace llmc::plan {

using namespace graph;

namespace {

constexpr std::int64_t kChunkElements = 16384;  // 64 KiB of fp32: an L1's worth, and thousands of chunks for a GPU

/// The parts of one parameter of the graph, at offsets from its own start.
class Naming {
 public:
  Naming(const Graph& graph, const spec::Spec& spec) : graph_(graph), spec_(spec) {}

  std::vector<Slice> parts(TensorId id, std::int64_t layer) const {
    const Tensor& t = graph_.at(id);
    const spec::Model& m = spec_.model;
    const std::string block = fmt::format("model.layers.{}.", layer);
    const std::int64_t head = m.head_dim, q = m.num_attention_heads * head, kv = m.num_key_value_heads * head;
    const std::int64_t up = t.rows == 1 ? t.cols / 2 : t.rows / 2;  // gate_up: where the second half begins
    const double fan_in = deviation(spec_.init.linear, t.cols), residual = deviation(spec_.init.residual, t.cols);

    if (t.name == "embed_weight") return {matrix(t, "model.embed_tokens.weight", 0, t.rows, spec_.init.embedding_std, false)};
    if (t.name == "lm_head_weight") return {matrix(t, "lm_head.weight", 0, t.rows, spec_.init.embedding_std, true)};
    if (t.name == "final_norm_weight") return {vector(t, "model.norm.weight", 0, t.cols, 1)};
    if (t.name == "attention_norm_weight") return {vector(t, block + "input_layernorm.weight", 0, t.cols, 1)};
    if (t.name == "mlp_norm_weight") return {vector(t, block + "post_attention_layernorm.weight", 0, t.cols, 1)};
    if (t.name == "qkv_weight")
      return {matrix(t, block + "self_attn.q_proj.weight", 0, q, fan_in, true),
              matrix(t, block + "self_attn.k_proj.weight", q, kv, fan_in, true),
              matrix(t, block + "self_attn.v_proj.weight", q + kv, kv, fan_in, true)};
    if (t.name == "qkv_bias")
      return {vector(t, block + "self_attn.q_proj.bias", 0, q, 0), vector(t, block + "self_attn.k_proj.bias", q, kv, 0),
              vector(t, block + "self_attn.v_proj.bias", q + kv, kv, 0)};
    if (t.name == "o_weight") return {matrix(t, block + "self_attn.o_proj.weight", 0, t.rows, residual, true)};
    if (t.name == "o_bias") return {vector(t, block + "self_attn.o_proj.bias", 0, t.cols, 0)};
    if (t.name == "gate_up_weight")
      return {matrix(t, block + "mlp.gate_proj.weight", 0, m.intermediate_size, fan_in, true),
              matrix(t, block + "mlp.up_proj.weight", up, m.intermediate_size, fan_in, true)};
    if (t.name == "gate_up_bias")
      return {vector(t, block + "mlp.gate_proj.bias", 0, m.intermediate_size, 0),
              vector(t, block + "mlp.up_proj.bias", up, m.intermediate_size, 0)};
    if (t.name == "down_weight") return {matrix(t, block + "mlp.down_proj.weight", 0, t.rows, residual, true)};
    if (t.name == "down_bias") return {vector(t, block + "mlp.down_proj.bias", 0, t.cols, 0)};
    throw Failure(Exit::internal, "no Hugging Face name for parameter %" + t.name);
  }

 private:
  static Slice matrix(const Tensor& t, std::string name, std::int64_t row, std::int64_t rows, double std, bool decay) {
    return {std::move(name), row * t.pitch, rows, t.cols, t.pitch, true, decay, std, 0};
  }
  static Slice vector(const Tensor&, std::string name, std::int64_t begin, std::int64_t length, double value) {
    return {std::move(name), begin, 1, length, length, false, false, 0, value};
  }

  double deviation(const spec::InitStd& rule, std::int64_t columns) const {
    switch (rule.kind) {
      case spec::InitStd::Kind::value: return rule.value;
      case spec::InitStd::Kind::fan_in: return 1 / std::sqrt(static_cast<double>(columns));
      case spec::InitStd::Kind::depth_scaled:
        return 1 / std::sqrt(static_cast<double>(spec_.model.hidden_size) * 2.0 *
                             static_cast<double>(spec_.model.num_hidden_layers));
    }
    return 0;
  }

  const Graph& graph_;
  const spec::Spec& spec_;
};

}  // namespace

ParameterLayout lay_out_parameters(const Graph& graph, const spec::Spec& spec) {
  // 256 bytes in the narrowest of the buffers that share these offsets.
  const std::int64_t unit = 16 * vector_of(spec.compute);
  const auto advance = [unit](std::int64_t& at, std::int64_t elements) { at = (at + elements + unit - 1) / unit * unit; };
  ParameterLayout layout;
  layout.chunk_elements = kChunkElements;
  // The order of a checkpoint: what comes before the layers, the layers, what comes after.
  std::vector<TensorId> before, inside, after;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    if (t.role != Role::parameter) continue;
    std::vector<TensorId>& part = t.scope == Scope::layer ? inside : inside.empty() ? before : after;
    part.push_back(static_cast<TensorId>(i));
  }

  std::int64_t at = 0;
  const auto place = [&](const std::vector<TensorId>& part) {
    for (TensorId id : part) {
      layout.offset[id] = at;
      advance(at, graph.at(id).elements());
    }
  };
  place(before);
  const std::int64_t first_layer = at;
  place(inside);
  layout.layer_stride = at - first_layer;
  at = first_layer + layout.layer_stride * graph.layers;
  place(after);
  layout.elements = at;

  const Naming naming(graph, spec);
  const auto name_parts = [&](TensorId id, std::int64_t layer) {
    for (Slice slice : naming.parts(id, layer)) {
      slice.offset += layout.offset[id] + layer * layout.layer_stride;
      layout.logical += slice.rows * slice.cols;
      layout.chunk_count += (slice.rows * slice.pitch + kChunkElements - 1) / kChunkElements;
      layout.slices.push_back(std::move(slice));
    }
  };
  for (TensorId id : before) name_parts(id, 0);
  for (std::int64_t layer = 0; layer < graph.layers; ++layer)
    for (TensorId id : inside) name_parts(id, layer);
  for (TensorId id : after) name_parts(id, 0);
  return layout;
}

}  // namespace llmc::plan
