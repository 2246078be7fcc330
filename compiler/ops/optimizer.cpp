// The work of an optimizer step on all parameters other than their update, chunk by chunk of the flat buffers: the
// gradient's norm, its clipping, and norms for each tensor.
#include <fmt/format.h>

#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"
#include "compiler/ops/update.h"

namespace llmc::ops {
namespace {

/// gradients, chunks -> partial sums of squares
void norm_signature(const Operands& o) { o.count(2, 1); }
/// partial sums, scalars -> results
void clip_signature(const Operands& o) { o.count(2, 1); }
/// three partial sums, first_chunk -> norms
void parameter_norms_signature(const Operands& o) { o.count(4, 1); }

std::vector<Work> norm_work(const Context& c) {
  const double elements = static_cast<double>(c.flat.in_buckets);
  return {Instance(c, "gradient_norm")
              .share("kGradientShare", Use::gradients)
              .costs(4 * elements, 2 * elements)
              .stream(c.flat, {c.op.inputs[0], c.op.inputs[1], c.op.outputs[0], "0", "kChunkCount"})};
}

std::vector<Work> clip_work(const Context& c) {
  const double chunks = static_cast<double>(c.flat.chunk_count);
  return {
      Instance(c, "gradient_clip")
          .costs(4 * chunks, chunks)
          .rows(1, c.flat.chunk_count, DType::f32, {c.op.inputs[0], "kChunkCount", c.op.inputs[1], c.op.outputs[0]})};
}

std::vector<Work> parameter_norms_work(const Context& c) {
  const double chunks = static_cast<double>(c.flat.chunk_count);
  return {Instance(c, "parameter_norms")
              .integer("kParameters", c.flat.tensors, "model")
              .costs(12 * chunks, 3 * chunks)
              .rows(c.flat.tensors, 32, DType::f32, all_operands(c.op),
                    fmt::format("{} tensors of {} chunks in all", c.flat.tensors, c.flat.chunk_count))};
}

}  // namespace

constexpr OpRow kGradientNorm = StepRow{.signature = norm_signature, .scratch = sum_a_chunk, .work = norm_work};

constexpr OpRow kGradientClip = StepRow{.signature = clip_signature, .work = clip_work};

constexpr OpRow kParameterNorms = StepRow{.signature = parameter_norms_signature, .work = parameter_norms_work};

}  // namespace llmc::ops
