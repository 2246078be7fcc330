// What writes weights outside of an optimizer step: initialise draws them, cast makes their copies in another type.
#include <fmt/format.h>

#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// -> parameters
void initialise_signature(const Operands& o) { o.expect(o.op.inputs.empty(), "draws from the seed alone"); }

/// parameters -> their copies, one after the other
void cast_signature(const Operands& o) {
  o.expect(!o.op.inputs.empty() && o.op.inputs.size() == o.op.outputs.size(), "one copy a parameter");
  for (std::size_t i = 0; i < o.op.inputs.size(); ++i) {
    o.same_shape(o.in(i), o.out(i));
    o.expect(o.out(i).partner == o.op.inputs[i], fmt::format("%{} is no copy of %{}", o.out(i).name, o.in(i).name));
  }
}

std::vector<Work> initialise_work(const Context& c) {
  return {
      Instance(c, "init_normal")
          .costs(4.0 * static_cast<double>(c.flat.elements), 0)
          .rows(4096, 1024, DType::f32,
                {"s.at<float>(kMasters)", "s.at<InitRule>(kInitRules)", "0", std::to_string(c.flat.tensors), "seed"})};
}

std::vector<Work> cast_work(const Context& c) {
  const DType type = c.out(0).dtype;
  return {Instance(c, "cast_weights")
              .element(type)
              .costs(static_cast<double>(bytes_of(DType::f32, c.flat.elements) + bytes_of(type, c.flat.elements)), 0)
              .stream(c.flat.chunk_count, c.flat.chunk_elements,
                      {"s.at<float>(kMasters)", copies_buffer(type), "s.at<Chunk>(kChunks)", "0", "kChunkCount"})};
}

}  // namespace

constexpr Row kInitialise = {.kind = OpKind::initialise,
                             .signature = initialise_signature,
                             .weight_type = reads_fp32,
                             .exact = kNoOutputs,
                             .writes_stream = false,
                             .gradient = no_gradient,
                             .gives_forward = false,
                             .row_sum = kNoSum,
                             .overwrites = in_a_new_place,
                             .scratch = no_scratch,
                             .stream_elements = off_the_stream,
                             .work = initialise_work};

constexpr Row kCast = {.kind = OpKind::cast,
                       .signature = cast_signature,
                       .weight_type = reads_fp32,
                       .exact = kNoOutputs,
                       .writes_stream = false,
                       .gradient = no_gradient,
                       .gives_forward = false,
                       .row_sum = kNoSum,
                       .overwrites = in_a_new_place,
                       .scratch = no_scratch,
                       .stream_elements = off_the_stream,
                       .work = cast_work};

}  // namespace llmc::ops
