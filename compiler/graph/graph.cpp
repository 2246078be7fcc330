#include "compiler/graph/graph.h"

#include <fmt/format.h>

#include <algorithm>

#include "error.h"

namespace llmc::graph {

const char* name_of(OpKind kind) {
#define LLMC_NAME(kind, row) #kind,
  static constexpr const char* kNames[] = {LLMC_OPS(LLMC_NAME)};
#undef LLMC_NAME
  return kNames[static_cast<std::size_t>(kind)];
}

const char* name_of(Block block) {
  switch (block) {
    case Block::embed: return "embed";
    case Block::layer: return "layer";
    case Block::head: return "head";
    case Block::none: return "none";
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

TensorId Graph::add_records(const char* name, Use use, Role role, const char* record, std::size_t bytes,
                            std::int64_t rows) {
  return add({.name = name,
              .dtype = DType::byte,
              .rows = rows,
              .cols = static_cast<std::int64_t>(bytes),
              .role = role,
              .use = use,
              .record = record});
}

TensorId Graph::host(Use use) const {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].use == use) return static_cast<TensorId>(i);
  throw Failure(Exit::internal, "the graph lacks a tensor that the host reads or writes");
}

TensorId Graph::storage(TensorId id) const {
  while (at(id).storage != id) id = at(id).storage;
  return id;
}

Region& Graph::region(Block block, Part part) {
  for (Region& region : regions)
    if (region.block == block && region.part == part) return region;
  throw Failure(Exit::internal, "the graph has no such region");
}

const Region* Graph::find(Part part, Block block, int variant) const {
  for (const Region& region : regions)
    if (region.part == part && region.block == block &&
        (block != Block::layer || region.variant == kAllVariants || region.variant == variant))
      return &region;
  return nullptr;
}

int Graph::variant_count() const { return 1 + *std::max_element(variants.begin(), variants.end()); }

std::int64_t Graph::layers_of(const Region& region) const {
  if (region.block != Block::layer) return 0;
  return region.variant == kAllVariants ? layers() : std::count(variants.begin(), variants.end(), region.variant);
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
  std::string flags;
  if (op.bias) flags += " bias";
  if (op.residual) flags += " residual";
  if (op.recompute) flags += " recompute";
  if (op.copies) flags += " copies";
  if (op.gradient) flags += " gradient";
  if (op.heads.dim) flags += fmt::format(" heads {}/{} of {}", op.heads.query, op.heads.key, op.heads.dim);
  if (op.window) flags += fmt::format(" window {}", op.window);
  if (op.eps > 0) flags += fmt::format(" eps {}", op.eps);
  return fmt::format("{}: {} = {}({}){}", op.label(), list(graph, op.outputs), name_of(op.kind), list(graph, op.inputs),
                     flags.empty() ? "" : " {" + flags.substr(1) + "}");
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

}  // namespace llmc::graph
