#include "compiler/tools/float64/operands.h"

#include <bit>
#include <cstring>

#include "compiler/tools/float64/formats.h"
#include "device/fp8.h"
#include "error.h"

namespace llmc::float64 {

using namespace graph;

Extent extent_of(const plan::Plan& plan, const Region& region, TensorId id) {
  const Graph& g = plan.graph;
  const Tensor& t = g.at(id);
  Extent extent{g.rows_seen(region, t), t.cols, t.pitch, t.dtype, t.record != nullptr};
  // A buffer of all parameters, or of some groups', ends with the last bucket that it has.
  const BucketRange range = plan.parameters.buckets_of(t.groups);
  if (t.role == Role::flat && t.use != Use::row_state && !range.empty()) {
    const Bucket &first = plan.parameters.buckets[range.first], &last = plan.parameters.buckets[range.past - 1];
    extent.cols = extent.pitch = in_blocks(last.offset + last.elements - first.offset, t.state_block);
  }
  // One element per token, in one row.
  if (region.loop == Loop::loss_chunks && t.axis == Axis::token && !g.row_a_token(t))
    extent.cols = extent.pitch = g.chunk_rows;
  return extent;
}

namespace {

/// Returns the flat buffer that holds a parameter, its copy, or its gradient.
TensorId flat_of(const Graph& g, const Tensor& t) {
  const Use use = t.role == Role::gradient ? Use::gradients : t.role == Role::copy ? copies_use(t.dtype) : Use::masters;
  for (std::size_t i = 0; i < g.tensors.size(); ++i)
    if (g.tensors[i].use == use && g.tensors[i].dtype == t.dtype) return static_cast<TensorId>(i);
  throw Failure(Exit::internal, "no flat buffer holds %" + t.name);
}

}  // namespace

Place place_of(const plan::Plan& plan, const ScheduledOp& launch, TensorId id) {
  const Graph& g = plan.graph;
  const Tensor& t = g.at(id);
  if (t.role == Role::parameter || t.role == Role::copy || t.role == Role::gradient) {
    const TensorId owner = t.role == Role::parameter ? id : t.partner;
    const std::int64_t stride =
        bucket_of(g.at(owner)) == Block::none ? plan.parameters.vector_stride : plan.parameters.layer_stride;
    return {flat_of(g, t), 0, 0,
            plan.parameters.offset.at(owner) + (t.scope == Scope::layer ? launch.layer * stride : 0)};
  }
  const Extent extent = extent_of(plan, g.regions[launch.region], id);
  if (t.role == Role::flat || extent.records) return {id};
  Place place{id, t.scope == Scope::layer ? launch.layer : 0, extent.rows != t.rows ? launch.chunk * extent.rows : 0,
              extent.cols != t.cols ? launch.chunk * extent.cols : 0};
  if (g.stream.has(id)) {
    place.buffer = g.stream.first;
    place.copy = id == g.stream.first   ? 0
                 : id == g.stream.last  ? g.layers()
                 : id == g.stream.below ? launch.layer
                                        : launch.layer + 1;
  } else if (g.dstream.has(id)) {
    place.buffer = g.dstream.above;  // every layer's backward pass reuses it
    place.copy = 0;
  }
  return place;
}

namespace {

template <class T>
T element(std::span<const std::byte> bytes, std::int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * static_cast<std::int64_t>(sizeof value), sizeof value);
  return value;
}

template <class Read>
void widen_all(const Extent& extent, const Matrix& to, Read read) {
#pragma omp parallel for
  for (std::int64_t i = 0; i < extent.rows; ++i)
    for (std::int64_t j = 0; j < extent.cols; ++j) to.at(i, j) = read(i * extent.pitch + j);
}

}  // namespace

void widen(const Extent& extent, std::span<const std::byte> bytes, const Matrix& to) {
  switch (extent.dtype) {
    case DType::f32:
      return widen_all(extent, to, [&](std::int64_t i) { return static_cast<double>(element<float>(bytes, i)); });
    case DType::i32:
      return widen_all(extent, to,
                       [&](std::int64_t i) { return static_cast<double>(element<std::int32_t>(bytes, i)); });
    case DType::bf16:
      return widen_all(extent, to, [&](std::int64_t i) {
        const std::uint32_t upper = element<std::uint16_t>(bytes, i);
        return static_cast<double>(std::bit_cast<float>(upper << 16));
      });
    case DType::f16:
      return widen_all(extent, to,
                       [&](std::int64_t i) { return static_cast<double>(to_float(element<fp16>(bytes, i))); });
    case DType::e4m3:
      return widen_all(extent, to,
                       [&](std::int64_t i) { return static_cast<double>(to_float(element<e4m3>(bytes, i))); });
    case DType::e5m2:
      return widen_all(extent, to,
                       [&](std::int64_t i) { return static_cast<double>(to_float(element<e5m2>(bytes, i))); });
    case DType::dynamic8:
    case DType::udynamic8: {
      const std::vector<double> numbers = dynamic_map(extent.dtype == DType::dynamic8);
      return widen_all(extent, to, [&](std::int64_t i) { return numbers[element<std::uint8_t>(bytes, i)]; });
    }
    case DType::rest:
    case DType::tie:
    case DType::byte: return;
  }
}

void join(const Extent& extent, std::span<const std::byte> copies, std::span<const std::byte> rest,
          std::span<const std::byte> ties, const Matrix& to) {
  widen_all(extent, to, [&](std::int64_t i) {
    const std::uint32_t low = element<std::uint16_t>(rest, i), tie = element<std::uint8_t>(ties, i / 8) >> i % 8 & 1u;
    // A copy is one more than the upper half if that was rounded up.
    const std::uint32_t upper = element<std::uint16_t>(copies, i) - (low > 0x8000 || tie ? 1u : 0u);
    return static_cast<double>(std::bit_cast<float>(upper << 16 | low));
  });
}

Owned::Owned(const Extent& extent) {
  if (extent.records)
    records.resize(static_cast<std::size_t>(extent.bytes()));
  else
    elements.resize(static_cast<std::size_t>(extent.rows * extent.cols));
}

OpValue Owned::value(const Extent& extent) {
  OpValue value;
  value.records = records;
  if (!extent.records) value.matrix = {elements.data(), extent.rows, extent.cols, extent.cols};
  return value;
}

bool reads_before(const Tensor& output) { return output.role == Role::gradient || output.record; }

}  // namespace llmc::float64
