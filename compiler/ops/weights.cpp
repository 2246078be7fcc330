// Ops that write all weights outside of an optimizer step: initialise sets them to random numbers, cast copies them in
// another dtype.
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// init_rules, chunks -> masters
void initialise_signature(const Operands& o) { o.count(2, 1); }

/// masters, chunks -> copies
void cast_signature(const Operands& o) {
  o.count(2, 1);
  o.same_shape(o.in(0), o.out(0));
}

std::vector<Work> initialise_work(const Context& c) {
  return {Instance(c, "init_normal")
              .share("kWeightShare", Use::masters)
              .costs(4.0 * static_cast<double>(c.flat.in_buckets), 0)
              .stream(c.flat, {c.op.outputs[0], c.op.inputs[0], c.op.inputs[1], "0", "kChunkCount", "seed"})};
}

std::vector<Work> cast_work(const Context& c) {
  const DType type = c.out(0).dtype;
  return {
      Instance(c, "cast_weights")
          .element(type)
          .share("kWeightShare", Use::masters)
          .costs(static_cast<double>(bytes_of(DType::f32, c.flat.in_buckets) + bytes_of(type, c.flat.in_buckets)), 0)
          .stream(c.flat, {c.op.inputs[0], c.op.outputs[0], c.op.inputs[1], "0", "kChunkCount"})};
}

}  // namespace

constexpr OpRow kInitialise = StepRow{.signature = initialise_signature, .work = initialise_work};

constexpr OpRow kCast = StepRow{.signature = cast_signature, .work = cast_work};

}  // namespace llmc::ops
