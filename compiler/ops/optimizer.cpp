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
/// partial sums, scalars -> results[, loss_scale]
void clip_signature(const Operands& o) { o.count(2, o.op.outputs.size() == 2 ? 2 : 1); }
/// three partial sums, first_chunk[, loss_scale] -> norms
void parameter_norms_signature(const Operands& o) { o.count(o.op.inputs.size() == 5 ? 5 : 4, 1); }

std::vector<Work> norm_work(const Context& c) {
  const double elements = static_cast<double>(c.flat.in_buckets);
  return {Instance(c, "gradient_norm")
              .share("kGradientShare", Use::gradients)
              .costs(4 * elements, 2 * elements)
              .stream(c.flat, {c.op.inputs[0], c.op.inputs[1], c.op.outputs[0], "0", "kChunkCount"})};
}

std::vector<Work> clip_work(const Context& c) {
  const double chunks = static_cast<double>(c.flat.chunk_count);
  std::vector<Argument> arguments = {c.op.inputs[0], "kChunkCount", c.op.inputs[1], c.op.outputs[0]};
  const bool scaled = c.op.outputs.size() == 2;
  if (scaled) arguments.emplace_back(c.op.outputs[1]);
  return {Instance(c, scaled ? "gradient_clip_scaled" : "gradient_clip")
              .costs(4 * chunks, chunks)
              .rows(1, c.flat.chunk_count, DType::f32, std::move(arguments))};
}

std::vector<Work> parameter_norms_work(const Context& c) {
  const double chunks = static_cast<double>(c.flat.chunk_count);
  std::vector<Argument> arguments(c.op.inputs.begin(), c.op.inputs.begin() + 4);
  arguments.emplace_back(c.op.outputs[0]);
  if (c.op.inputs.size() == 5) arguments.emplace_back(c.op.inputs[4]);
  return {Instance(c, "parameter_norms")
              .integer("kParameters", c.flat.tensors, "model")
              .loss_scaled(c.op.inputs.size() == 5)
              .costs(12 * chunks, 3 * chunks)
              .rows(c.flat.tensors, 32, DType::f32, std::move(arguments),
                    fmt::format("{} tensors of {} chunks in all", c.flat.tensors, c.flat.chunk_count))};
}

}  // namespace

constexpr OpRow kGradientNorm = StepRow{.signature = norm_signature, .scratch = sum_a_chunk, .work = norm_work};

constexpr OpRow kGradientClip = StepRow{.signature = clip_signature, .work = clip_work};

constexpr OpRow kParameterNorms = StepRow{.signature = parameter_norms_signature, .work = parameter_norms_work};

}  // namespace llmc::ops
