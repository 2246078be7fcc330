#include "compiler/plan/parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "error.h"
#include "program/chunks.h"
#include "program/shards.h"

namespace llmc::plan {

using namespace graph;

namespace {

constexpr std::int64_t kChunkElements = 16384;  // 64 KiB of fp32: the size of an L1 cache, and thousands of chunks for
                                                // a GPU

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

/// Returns the standard deviation of a piece's initial weights; 0 if they are constant.
double deviation(const spec::Spec& spec, InitClass init, std::int64_t columns) {
  switch (init) {
    case InitClass::zeros:
    case InitClass::ones: return 0;
    case InitClass::embedding: return spec.init.embedding_std;
    case InitClass::linear: return deviation(spec, spec.init.linear, columns);
    case InitClass::residual: return deviation(spec, spec.init.residual, columns);
  }
  return 0;
}

/// Returns a piece of `t`, which begins at `offset`.
Slice slice_of(const Tensor& t, const ParameterPiece& piece, const std::string& prefix, std::int64_t offset,
               const spec::Spec& spec) {
  Slice slice{.name = prefix + piece.name,
              .offset = offset + piece.begin * (piece.matrix ? t.pitch : 1),
              .matrix = piece.matrix,
              .group = piece.group,
              .init_std = deviation(spec, piece.init, t.cols),
              .init_value = piece.init == InitClass::ones ? 1.0 : 0.0};
  slice.rows = piece.matrix ? piece.size : 1;
  slice.cols = piece.matrix ? t.cols : piece.size;
  slice.pitch = piece.matrix ? t.pitch : piece.size;
  return slice;
}

/// kBlocksInOrder, those whose matrices have one optimizer together, first the one of the vectors: each keeps its state
/// for one run of buckets.
std::vector<Block> blocks_by_optimizer(const Graph& graph, OptimizerKind kind) {
  const std::vector<GroupsOptimizer> optimizers = optimizers_of(graph.groups, kind);
  std::map<Block, std::size_t> optimizer;  // of a bucket
  for (const Tensor& t : graph.tensors)
    for (std::size_t i = 0; i < optimizers.size(); ++i)
      if (t.role == Role::parameter && holds(optimizers[i].groups, t.pieces[0].group)) optimizer[bucket_of(t)] = i;
  std::vector<Block> blocks(std::begin(kBlocksInOrder), std::end(kBlocksInOrder));
  const std::size_t first = optimizer[Block::none];
  std::ranges::stable_sort(blocks, {},
                           [&](Block block) { return optimizer[block] == first ? 0 : optimizer[block] + 1; });
  return blocks;
}

/// Of a flat tensor that every rank has whole: all, or of the optimizer's state those from its first bucket to the
/// beginning of the one after its last.
std::int64_t flat_elements_of(const Tensor& t, const ParameterLayout& layout) {
  const BucketRange range = layout.buckets_of(t.groups);
  const std::int64_t past = range.past == layout.buckets.size() ? layout.elements : layout.buckets[range.past].offset;
  return in_blocks(past - layout.buckets[range.first].offset, t.state_block);
}

/// The largest block of the optimizer's state: where parameters and shares begin, so that none is cut.
std::int64_t largest_block(const Graph& graph) {
  std::int64_t largest = 1;
  for (const Tensor& t : graph.tensors) largest = std::max(largest, t.state_block);
  if (kChunkElements % largest != 0)
    throw Failure(Exit::internal, fmt::format("the optimizer's state has blocks of {}, no part of a chunk", largest));
  return largest;
}

/// Whether blocks of the optimizer's state are of one parameter each, without padding.
void check_blocks(const Graph& graph, const ParameterLayout& layout) {
  for (const Tensor& t : graph.tensors) {
    if (t.state_block == 1) continue;
    for (const Slice& slice : layout.slices)
      if (holds(t.groups, slice.group) &&
          (slice.offset % t.state_block != 0 || (slice.rows > 1 && slice.pitch != slice.cols)))
        throw Failure(Exit::internal,
                      fmt::format("{} cannot be cut into blocks of {} for {}", slice.name, t.state_block, t.name));
  }
}

/// Numbers the rows of matrices that the optimizer keeps an element of each of, layer by layer.
void number_rows(const Graph& graph, ParameterLayout& layout) {
  for (const Tensor& t : graph.tensors) {
    if (t.use != Use::row_state) continue;
    for (Slice& slice : layout.slices)
      if (holds(t.groups, slice.group)) {
        slice.first_row = layout.state_rows;
        layout.state_rows += slice.rows;
      }
  }
}

}  // namespace

void size_flat(Graph& graph, const ParameterLayout& layout) {
  for (Tensor& t : graph.tensors) {
    if (t.use == Use::row_state)
      t.cols = t.pitch = layout.state_rows;
    else if (t.role == Role::flat)
      t.cols = t.pitch = flat_elements_of(t, layout);
    if (t.role == Role::bucket) t.cols = t.pitch = layout.buckets[layout.first_bucket.at(t.block)].elements;
    if (t.role == Role::wire)
      for (const Bucket& bucket : layout.buckets) t.cols = t.pitch = std::max(t.cols, bucket.elements);
    if (t.use == Use::chunks) t.rows = layout.chunk_count;
    if (t.use == Use::first_chunk) t.cols = t.pitch = layout.tensors + 1;
    if (t.use == Use::init_rules || t.use == Use::parameter_norms) t.rows = layout.tensors;
  }
}

ParameterLayout lay_out_parameters(const Graph& graph, const spec::Spec& spec) {
  // 256 bytes in the narrowest of the buffers that share these offsets.
  const std::int64_t block = largest_block(graph), unit = std::max(16 * vector_of(spec.compute), block);
  const auto advance = [unit](std::int64_t& at, std::int64_t elements) {
    at = (at + elements + unit - 1) / unit * unit;
  };
  ParameterLayout layout;
  layout.chunk_elements = kChunkElements;
  layout.share_unit = std::max(kShareUnit, block);
  std::map<Block, std::vector<TensorId>> parameters;
  for (std::size_t i = 0; i < graph.tensors.size(); ++i)
    if (graph.tensors[i].role == Role::parameter)
      parameters[graph.tensors[i].block].push_back(static_cast<TensorId>(i));

  std::int64_t at = 0;
  /// Places the parameters of a block that are in `bucket`, once for each layer. Returns the elements from one layer to
  /// the next.
  const auto place = [&](Block block, Block bucket) {
    const std::int64_t begin = at;
    for (TensorId id : parameters[block])
      if (bucket_of(graph.at(id)) == bucket) {
        layout.offset[id] = at;
        advance(at, graph.at(id).elements());
      }
    return at - begin;
  };
  /// Ends a bucket that began at `begin`.
  const auto close = [&](std::int64_t begin, Block bucket) {
    if (at == begin) return;
    layout.first_bucket.try_emplace(bucket, layout.buckets.size());
    layout.buckets.push_back({begin, at - begin});
    layout.in_buckets += at - begin;
    advance(at, share_gap(layout.share_unit));
  };
  for (const Block block : kBlocksInOrder) {
    const std::int64_t elements = place(block, Block::none);
    if (block != Block::layer) continue;
    layout.vector_stride = elements;
    at += (graph.layers() - 1) * elements;
  }
  close(0, Block::none);
  for (const Block block : blocks_by_optimizer(graph, spec.optimizer.kind)) {
    const std::int64_t begin = at, elements = place(block, block);
    close(begin, block);
    if (block != Block::layer) continue;
    layout.layer_stride = at - begin;
    for (std::int64_t layer = 1; layer < graph.layers(); ++layer) {
      const std::int64_t next = at;
      at += elements;
      close(next, block);
    }
  }
  layout.elements = at;

  const auto name_parts = [&](TensorId id, std::int64_t layer) {
    const Tensor& t = graph.at(id);
    const std::string prefix = t.scope == Scope::layer ? fmt::format("model.layers.{}.", layer) : "";
    const std::int64_t stride = bucket_of(t) == Block::none ? layout.vector_stride : layout.layer_stride;
    for (const ParameterPiece& piece : t.pieces) {
      const Slice slice = slice_of(t, piece, prefix, layout.offset[id] + layer * stride, spec);
      layout.logical += slice.rows * slice.cols;
      layout.chunk_count += chunks_of(slice.rows * slice.pitch, kChunkElements);
      layout.slices.push_back(slice);
    }
  };
  for (const Block block : kBlocksInOrder)
    for (std::int64_t layer = 0; layer < (block == Block::layer ? graph.layers() : 1); ++layer)
      for (TensorId id : parameters[block]) name_parts(id, layer);
  layout.tensors = static_cast<std::int64_t>(layout.slices.size());
  layout.group_elements.resize(graph.groups.size());
  for (const Slice& slice : layout.slices)
    layout.group_elements[static_cast<std::size_t>(slice.group)] += slice.rows * slice.pitch;
  for (std::size_t group = 0; group < graph.groups.size(); ++group)
    layout.group_buckets.push_back(buckets_of(layout.buckets, layout.slices, GroupSet{1} << group));
  check_blocks(graph, layout);
  number_rows(graph, layout);
  return layout;
}

}  // namespace llmc::plan
