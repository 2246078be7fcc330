// Ops around a transfer of gradients between ranks: one rounds them to the dtype in which they are sent, one writes the
// received sums to this rank's gradients. With one rank neither runs.
#include <fmt/format.h>

#include "compiler/ops/collectives.h"
#include "compiler/ops/instance.h"

namespace llmc::ops {
namespace {

/// a bucket's gradients -> the wire
void to_signature(const Operands& o) {
  o.count(1, 1);
  o.expect(o.in(0).role == Role::bucket && o.out(0).role == Role::wire, "copies a bucket to its wire buffer");
}

/// the reduced values: the wire or a bucket, the bucket -> stored gradients: the bucket or their flat buffer
void from_signature(const Operands& o) {
  o.count(2, 1);
  o.expect(o.in(1).role == Role::bucket && o.op.outputs[0] != o.op.inputs[0],
           "copies the reduced values to another buffer");
}

std::vector<Work> to_work(const Context& c) {
  const double elements = static_cast<double>(c.in(0).elements());
  Work work = Instance(c, "to_wire")
                  .element(c.out(0).dtype, "Act", "parallel.gradient_dtype")
                  .costs(elements * (4 + static_cast<double>(bytes_of(c.out(0).dtype, 1))), 0)
                  .parts(c.flat, {c.op.inputs[0], c.op.outputs[0], std::to_string(c.in(0).elements())});
  work.taken = c.spec.parallel.world_size > 1;
  return {std::move(work)};
}

/// Processes the whole bucket if every rank keeps all gradients, else this rank's shard. Sharded gradients add up over
/// micro-batches.
std::vector<Work> from_work(const Context& c) {
  const Tensor &wire = c.in(0), &bucket = c.in(1), &kept = c.out(0);
  const Shard shard = c.spec.parallel.shard;
  const bool flat = kept.role == Role::flat, adds = flat && c.region.reduces_gradients();
  const std::string own = "s.ranks.rank() * " + share_text(c, bucket);
  std::vector<Argument> arguments = {c.op.inputs[0], c.op.outputs[0], std::to_string(bucket.elements()), "false"};
  std::int64_t elements = bucket.elements();
  if (shard != Shard::none) {
    arguments = {wire.name + " + " + own, kept.name + " + " + (flat ? share_begin(c, bucket) : own),
                 share_text(c, bucket), adds ? "!first" : "false"};
    elements = share_of(elements, static_cast<int>(c.spec.parallel.world_size), c.flat.share_unit);
  }
  Work work =
      Instance(c, "from_wire")
          .element(wire.dtype, "Act", "parallel.gradient_dtype")
          .named(name_of(wire.dtype))
          .costs(static_cast<double>(elements) * static_cast<double>(bytes_of(wire.dtype, 1) + (adds ? 8 : 4)), 0)
          .parts(c.flat, std::move(arguments));
  work.adds = adds;
  work.taken = c.spec.parallel.world_size > 1;
  return {std::move(work)};
}

}  // namespace

constexpr OpRow kToWire = RankRow{.signature = to_signature, .work = to_work};
constexpr OpRow kFromWire = RankRow{.signature = from_signature, .work = from_work};

}  // namespace llmc::ops
