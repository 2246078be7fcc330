// What an optimizer step does with all parameters at once, chunk by chunk of the flat buffers: the gradient's norm, its
// clipping, AdamW (Loshchilov and Hutter 2019), and norms for each tensor.
#include "compiler/ops/optimizer.h"

#include <fmt/format.h>

#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// gradients, chunks -> partial sums of squares
void norm_signature(const Operands& o) { o.count(2, 1); }
/// partial sums, scalars -> results
void clip_signature(const Operands& o) { o.count(2, 1); }
/// results, masters, gradients, chunks, AdamW's scalars, its groups', exp_avg, exp_avg_sq -> [copies],
/// [partial sums of squares of weights, of updates]
void adamw_signature(const Operands& o) {
  const auto [copies, norms] = o.op.as<AdamwAttributes>();
  o.count(8, copies + (norms ? 2 : 0));
}
/// three partial sums, first_chunk -> norms
void parameter_norms_signature(const Operands& o) { o.count(4, 1); }

/// One partial sum for each chunk.
void sum_a_chunk(Graph& graph, const Op& op, const spec::Spec&, const FlatSizes& flat, const AttentionChoices&) {
  for (TensorId id : op.outputs)
    if (graph.at(id).role == Role::activation) graph.at(id).cols = graph.at(id).pitch = flat.chunk_count;
}

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

std::vector<Work> adamw_work(const Context& c) {
  const Op& op = c.op;
  const double elements = static_cast<double>(c.flat.in_buckets);
  const auto [copies, norms] = op.as<AdamwAttributes>();
  const DType copy = copies ? c.out(0).dtype : c.spec.compute;
  const double copy_bytes = copies ? static_cast<double>(bytes_of(copy, c.flat.in_buckets)) : 0;
  const auto& in = op.inputs;
  const auto output = [&, first = std::size_t{copies}, norms = norms](std::size_t i) {
    return norms ? Argument(op.outputs[first + i]) : "nullptr";
  };
  return {Instance(c, "adamw")
              .element(copy)
              .flag("kCopy", copies, "copy", "precision.compute")
              .flag("kNorms", norms, "norms", "metrics.per_parameter")
              .share("kGradientShare", Use::gradients)
              .share("kWeightShare", Use::masters)
              .costs(28 * elements + copy_bytes, 15 * elements)
              .stream(c.flat, {in[1], in[2], in[6], in[7], copies ? Argument(op.outputs[0]) : "nullptr", in[3], "0",
                               "kChunkCount", in[4], in[5], in[0], output(0), output(1)})};
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

std::string AdamwAttributes::text() const { return flags_text({{"copies", copies}, {"norms", norms}}); }

constexpr Row kGradientNorm = StepRow{.signature = norm_signature, .scratch = sum_a_chunk, .work = norm_work};

constexpr Row kGradientClip = StepRow{.signature = clip_signature, .work = clip_work};

constexpr Row kAdamw = StepRow{.signature = adamw_signature,
                               .scratch = sum_a_chunk,
                               .changes = input(1) | input(6) | input(7),
                               .updates_weights = true,
                               .work = adamw_work};

constexpr Row kParameterNorms = StepRow{.signature = parameter_norms_signature, .work = parameter_norms_work};

}  // namespace llmc::ops
