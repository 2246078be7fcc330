#include "compiler/graph/graph.h"

#include <fmt/format.h>

namespace llmc::graph {

const char* name_of(OpKind kind) {
  switch (kind) {
    case OpKind::embedding: return "embedding";
    case OpKind::rms_norm: return "rms_norm";
    case OpKind::linear: return "linear";
    case OpKind::rope: return "rope";
    case OpKind::attention: return "attention";
    case OpKind::swiglu: return "swiglu";
    case OpKind::add: return "add";
    case OpKind::cross_entropy: return "cross_entropy";
    case OpKind::loss_sum: return "loss_sum";
    case OpKind::gather_rows: return "gather_rows";
    case OpKind::embedding_backward: return "embedding_backward";
    case OpKind::rms_norm_backward: return "rms_norm_backward";
    case OpKind::linear_dgrad: return "linear_dgrad";
    case OpKind::linear_wgrad: return "linear_wgrad";
    case OpKind::column_sum: return "column_sum";
    case OpKind::column_reduce: return "column_reduce";
    case OpKind::rope_backward: return "rope_backward";
    case OpKind::attention_backward: return "attention_backward";
    case OpKind::swiglu_backward: return "swiglu_backward";
    case OpKind::cross_entropy_backward: return "cross_entropy_backward";
    case OpKind::zero: return "zero";
    case OpKind::gradient_norm: return "gradient_norm";
    case OpKind::gradient_clip: return "gradient_clip";
    case OpKind::adamw: return "adamw";
    case OpKind::parameter_norms: return "parameter_norms";
    case OpKind::initialise: return "initialise";
    case OpKind::cast: return "cast";
  }
  return "?";
}

TensorId Graph::add(Tensor tensor) {
  const TensorId id = static_cast<TensorId>(tensors.size());
  if (tensor.storage == kNone) tensor.storage = id;
  if (tensor.pitch == 0) tensor.pitch = tensor.cols;
  tensors.push_back(std::move(tensor));
  return id;
}

TensorId Graph::storage(TensorId id) const {
  while (at(id).storage != id) id = at(id).storage;
  return id;
}

TensorId Graph::find(const std::string& name) const {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].name == name) return static_cast<TensorId>(i);
  return kNone;
}

Region* Graph::region(const std::string& name) {
  for (Region& region : regions)
    if (region.name == name) return &region;
  return nullptr;
}

namespace {

std::string list(const Graph& graph, const std::vector<TensorId>& ids) {
  std::string out;
  for (TensorId id : ids) out += (out.empty() ? "%" : ", %") + graph.at(id).name;
  return out;
}

const char* role_name(Role role) {
  switch (role) {
    case Role::parameter: return "parameter";
    case Role::copy: return "copy";
    case Role::gradient: return "gradient";
    case Role::constant: return "constant";
    case Role::input: return "input";
    case Role::activation: return "activation";
  }
  return "?";
}

const char* loop_name(Loop loop) {
  switch (loop) {
    case Loop::once: return "once";
    case Loop::layers_up: return "layers ascending";
    case Loop::layers_down: return "layers descending";
    case Loop::loss_chunks: return "loss chunks";
  }
  return "?";
}

}  // namespace

std::string to_text(const Graph& graph, const Op& op) {
  std::string flags;
  if (op.bias) flags += " bias";
  if (op.residual) flags += " residual";
  if (op.recompute) flags += " recompute";
  if (op.copies) flags += " copies";
  if (op.gradient) flags += " gradient";
  return fmt::format("{}: {} = {}({}){}", op.name, list(graph, op.outputs), name_of(op.kind), list(graph, op.inputs),
                     flags.empty() ? "" : " {" + flags.substr(1) + "}");
}

std::string to_text(const Graph& graph) {
  std::string out = fmt::format("graph batch={} sequence={} layers={} heads={}/{} head_dim={} chunk_rows={}\n",
                                graph.batch, graph.sequence, graph.layers, graph.heads, graph.kv_heads, graph.head_dim,
                                graph.chunk_rows);
  for (const Tensor& t : graph.tensors) {
    out += fmt::format("%{} : {}[{}, {}]", t.name, name_of(t.dtype), t.rows, t.cols);
    if (t.pitch != t.cols) out += fmt::format(" pitch {}", t.pitch);
    out += fmt::format(" {}{}", role_name(t.role), t.scope == Scope::layer ? " per layer" : "");
    if (const Tensor& root = graph.at(graph.storage(graph.find(t.name))); root.name != t.name) out += " in " + root.name;
    out += '\n';
  }
  for (const Region& region : graph.regions) {
    out += fmt::format("region {} ({}", region.name, loop_name(region.loop));
    if (!region.layers.empty()) out += fmt::format("; {} layers", region.layers.size());
    out += ")";
    if (!region.saved.empty()) out += " saves " + list(graph, region.saved);
    out += '\n';
    for (const Op& op : region.ops) out += "  " + to_text(graph, op) + '\n';
  }
  return out;
}

}  // namespace llmc::graph
