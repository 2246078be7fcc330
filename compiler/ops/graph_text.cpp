#include "compiler/ops/graph_text.h"

#include <fmt/format.h>

namespace llmc::ops {

using namespace graph;

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
    case Role::rounded: return "rounded";
    case Role::output: return "output";
    case Role::flat: return "flat";
    case Role::bucket: return "bucket";
    case Role::wire: return "wire";
  }
  return "?";
}

const char* scope_text(Scope scope) {
  switch (scope) {
    case Scope::step: return "";
    case Scope::layer: return " per layer";
    case Scope::boundary: return " per boundary";
  }
  return "?";
}

const char* axis_text(Axis axis) {
  switch (axis) {
    case Axis::other: return "";
    case Axis::token: return " by token";
    case Axis::chunk: return " by token of a chunk";
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
  std::string attributes = std::visit([](const auto& of) { return of.text(); }, op.attributes);
  for (const Quantised& q : op.quantised)
    attributes += fmt::format("{}quantises {}{}{}{}", attributes.empty() ? "" : " ", q.output,
                              q.folded ? " folded" : "", q.alone ? " alone" : "", q.transposed ? " transposed" : "");
  return fmt::format("{}: {} = {}({}){}{}", op.label(), list(graph, op.outputs), name_of(op.kind),
                     list(graph, op.inputs), attributes.empty() ? "" : " {" + attributes + "}", op.once ? " once" : "");
}

std::string to_text(const Graph& graph) {
  std::string out = fmt::format("graph batch={} sequence={} layers={} chunk_rows={}\n", graph.batch, graph.sequence,
                                graph.layers(), graph.chunk_rows);
  for (std::size_t i = 0; i < graph.tensors.size(); ++i) {
    const Tensor& t = graph.tensors[i];
    out += fmt::format("%{} : {}[{}, {}]", t.name, name_of(t.dtype), t.rows, t.cols);
    if (t.pitch != t.cols) out += fmt::format(" pitch {}", t.pitch);
    out += fmt::format(" {}{}", role_name(t.role), scope_text(t.scope));
    out += axis_text(t.axis);
    if (const TensorId root = graph.storage(static_cast<TensorId>(i)); root != static_cast<TensorId>(i))
      out += " in " + graph.at(root).name;
    out += '\n';
  }
  for (const Region& region : graph.regions) {
    out += fmt::format("region {} ({}", region.name, loop_name(region.loop));
    if (region.block == Block::layer) out += fmt::format("; {} layers", graph.layers_of(region));
    out += ")";
    if (!region.saved.empty()) out += " saves " + list(graph, region.saved);
    out += '\n';
    for (const Op& op : region.ops) out += "  " + to_text(graph, op) + '\n';
  }
  return out;
}

}  // namespace llmc::ops
