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

OpKind kind_of(std::string_view name) {
  for (std::size_t i = 0; i < kOpKinds; ++i)
    if (name == name_of(static_cast<OpKind>(i))) return static_cast<OpKind>(i);
  throw Failure(Exit::internal, fmt::format("there is no op {}", name));
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

void Op::refuse_attributes() const {
  throw Failure(Exit::internal, fmt::format("op {} has attributes that a {} does not have", label(), name_of(kind)));
}

TensorId Graph::add(Tensor tensor) {
  const TensorId id = static_cast<TensorId>(tensors.size());
  if (tensor.storage == kNone) tensor.storage = id;
  if (tensor.pitch == 0) tensor.pitch = tensor.cols;
  tensors.push_back(std::move(tensor));
  return id;
}

TensorId Graph::add_rounded(TensorId id, std::string name, DType dtype, Scope scope) {
  const Tensor& x = at(id);
  return add({.name = std::move(name),
              .dtype = dtype,
              .rows = x.rows,
              .cols = x.cols,
              .pitch = x.pitch,
              .scope = scope,
              .axis = x.axis,
              .partner = x.role == Role::parameter ? id : kNone});
}

TensorId Graph::add_copy(TensorId parameter, DType dtype) {
  Tensor copy = at(parameter);
  copy.name += std::string("_") + llmc::name_of(dtype);
  copy.dtype = dtype;
  copy.role = Role::copy;
  copy.storage = kNone;
  copy.partner = parameter;
  copy.pieces.clear();
  return add(std::move(copy));
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

std::size_t Graph::add_report(const std::string& name) {
  reports.push_back(name);
  if (reports.size() == 1) add_records("reports", Use::reports, Role::output, "double", sizeof(double));
  at(host(Use::reports)).rows = static_cast<std::int64_t>(reports.size());
  return reports.size() - 1;
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
    if (region.part == part && region.block == block && (block != Block::layer || serves(region, variant)))
      return &region;
  return nullptr;
}

int Graph::variant_count() const { return 1 + *std::max_element(variants.begin(), variants.end()); }

bool Graph::serves(const Region& region, int variant) const {
  if (region.variant != kAllVariants) return region.variant == variant;
  const auto layer = std::ranges::find(variants, variant) - variants.begin();
  return !region.kind || *region.kind == kinds[static_cast<std::size_t>(layer)];
}

std::int64_t Graph::layers_of(const Region& region) const {
  if (region.block != Block::layer) return 0;
  return std::ranges::count_if(variants, [&](int variant) { return serves(region, variant); });
}

}  // namespace llmc::graph
