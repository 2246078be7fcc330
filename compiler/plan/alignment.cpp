#include "compiler/plan/alignment.h"

#include <numeric>
#include <string_view>

namespace llmc::plan {

using namespace graph;

namespace {

/// Of a parameter, its copy or its gradient. The flat buffers and the windows of several ranks begin at multiples of
/// kArenaAlignment, and a bucket begins where its window does.
std::size_t multiple_of_flat(const Plan& plan, TensorId id) {
  const Tensor& t = plan.graph.at(id);
  const TensorId owner = t.role == Role::parameter ? id : t.partner;
  const Block block = bucket_of(plan.graph.at(owner));
  const ParameterLayout& layout = plan.parameters;
  const std::int64_t stride = block == Block::none ? layout.vector_stride : layout.layer_stride;
  const std::int64_t bucket = layout.buckets[layout.first_bucket.at(block)].offset;
  const std::int64_t elements =
      std::gcd(std::gcd(layout.offset.at(owner), bucket), t.scope == Scope::layer ? stride : 0);
  return static_cast<std::size_t>(bytes_of(t.dtype, elements));
}

/// A number that divides every address at which an op of the region finds a tensor, counted from the arena's start.
std::size_t multiple(const Plan& plan, std::size_t region, TensorId id) {
  const Graph& g = plan.graph;
  const Tensor& t = g.at(id);
  if (t.role == Role::parameter || t.role == Role::copy || t.role == Role::gradient) return multiple_of_flat(plan, id);
  const Placement& place = plan.layout.find(g, region, id);
  const auto step = static_cast<std::size_t>(g.chunk_step(g.regions[region], t));
  return std::gcd(std::gcd(place.offset, place.layer_stride), step);
}

}  // namespace

void lower_alignment(const Plan& plan, const Launch& launch, GemmShape& shape) {
  const auto lower = [&](std::uint32_t& alignment, TensorId id) {
    alignment = static_cast<std::uint32_t>(
        std::gcd(static_cast<std::size_t>(alignment), multiple(plan, launch.region_index, id)));
  };
  for (const ops::Argument& argument : launch.arguments) {
    const std::string_view member = argument.member ? argument.member : "";
    if (member == "a") lower(shape.align_a, argument.tensor);
    if (member == "b") lower(shape.align_b, argument.tensor);
    if (member == "c") lower(shape.align_c, argument.tensor);
    if (member == "d") lower(shape.align_d, argument.tensor);
  }
  if (!shape.residual) shape.align_c = shape.align_d;
}

}  // namespace llmc::plan
