#include "compiler/plan/parameters.h"

#include <fmt/format.h>

#include <cmath>

#include "train/chunks.h"

namespace llmc::plan {

using namespace graph;

namespace {

constexpr std::int64_t kChunkElements = 16384;  // 64 KiB of fp32: an L1's worth, and thousands of chunks for a GPU

double deviation(const spec::Spec& spec, const spec::InitStd& rule, std::int64_t columns) {
  switch (rule.kind) {
    case spec::InitStd::Kind::value: return rule.value;
    case spec::InitStd::Kind::fan_in: return 1 / std::sqrt(static_cast<double>(columns));
    case spec::InitStd::Kind::depth_scaled:
      return 1 / std::sqrt(static_cast<double>(spec.model.hidden_size) * 2.0 *
                           static_cast<double>(spec.model.num_hidden_layers));
  }
  return 0;
}

/// The standard deviation of a piece's first weights; 0 where they are all the same.
double deviation(const spec::Spec& spec, Init init, std::int64_t columns) {
  switch (init) {
    case Init::zeros:
    case Init::ones: return 0;
    case Init::embedding: return spec.init.embedding_std;
    case Init::linear: return deviation(spec, spec.init.linear, columns);
    case Init::residual: return deviation(spec, spec.init.residual, columns);
  }
  return 0;
}

/// A piece of `t`, which begins at `offset`.
Slice slice_of(const Tensor& t, const Piece& piece, const std::string& prefix, std::int64_t offset,
               const spec::Spec& spec) {
  Slice slice{.name = prefix + piece.name,
              .offset = offset + piece.begin * (piece.matrix ? t.pitch : 1),
              .matrix = piece.matrix,
              .group = piece.group,
              .init_std = deviation(spec, piece.init, t.cols),
              .init_value = piece.init == Init::ones ? 1.0 : 0.0};
  slice.rows = piece.matrix ? piece.size : 1;
  slice.cols = piece.matrix ? t.cols : piece.size;
  slice.pitch = piece.matrix ? t.pitch : piece.size;
  return slice;
}

}  // namespace

void size_flat(Graph& graph, const ParameterLayout& layout) {
  for (Tensor& t : graph.tensors) {
    if (t.role == Role::flat) t.cols = t.pitch = layout.elements;
    if (t.use == Use::chunks) t.rows = layout.chunk_count;
    if (t.use == Use::first_chunk) t.cols = t.pitch = layout.tensors + 1;
    if (t.use == Use::init_rules || t.use == Use::parameter_norms) t.rows = layout.tensors;
  }
}

ParameterLayout lay_out_parameters(const Graph& graph, const spec::Spec& spec) {
  // 256 bytes in the narrowest of the buffers that share these offsets.
  const std::int64_t unit = 16 * vector_of(spec.compute);
  const auto advance = [unit](std::int64_t& at, std::int64_t elements) {
    at = (at + elements + unit - 1) / unit * unit;
  };
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
  at = first_layer + layout.layer_stride * graph.layers();
  place(after);
  layout.elements = at;

  const auto name_parts = [&](TensorId id, std::int64_t layer) {
    const Tensor& t = graph.at(id);
    const std::string prefix = t.scope == Scope::layer ? fmt::format("model.layers.{}.", layer) : "";
    for (const Piece& piece : t.pieces) {
      const Slice slice = slice_of(t, piece, prefix, layout.offset[id] + layer * layout.layer_stride, spec);
      layout.logical += slice.rows * slice.cols;
      layout.chunk_count += chunks_of(slice.rows * slice.pitch, kChunkElements);
      layout.slices.push_back(slice);
    }
  };
  for (TensorId id : before) name_parts(id, 0);
  for (std::int64_t layer = 0; layer < graph.layers(); ++layer)
    for (TensorId id : inside) name_parts(id, layer);
  for (TensorId id : after) name_parts(id, 0);
  layout.tensors = static_cast<std::int64_t>(layout.slices.size());
  return layout;
}

}  // namespace llmc::plan
