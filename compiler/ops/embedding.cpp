// embedding: x[t] = scale table[token[t]], of the table's masters if x is fp32. Its gradient adds dx to the rows of the
// table that occur, in a fixed order.
#include <algorithm>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/linear.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// Whether the table's masters are split.
bool split(const Operands& o) { return o.op.inputs.size() == 4; }

/// tokens, table -> x; of split masters tokens, copy, rest, ties -> x
void signature(const Operands& o) {
  o.count(split(o) ? 4 : 2, 1);
  o.expect(o.out(0).rows == o.graph.tokens() && o.in(1).cols == o.out(0).cols, "one row of the table for each token");
}

/// dx, order, run_begin, run_token, run_count -> dtable
void backward_signature(const Operands& o) { o.count(5, 1); }

/// A row of the table has the residual stream's dtype.
DType table_type(const Operands& o, std::size_t) { return o.out(0).dtype; }

/// The op adds to dtable. If the head, whose backward pass comes first, has another weight, dtable is zeroed first.
void gradient(Backward& b, const Op& op) {
  const TensorId dtable = b.of_parameter(op.inputs[1]), dx = b.of(op.outputs[0]);
  if (!b.is_written(dtable)) b.emit(OpKind::zero, op.name + "_zero", {}, {dtable});
  b.emit(OpKind::embedding_backward, op.name + "_backward",
         {dx, b.host(Use::embedding_order), b.host(Use::run_begin), b.host(Use::run_token), b.host(Use::run_count)},
         {dtable}, ScaleAttributes{scale_of(op)});
}

/// Adds the params of the scale.
Instance& scaled(Instance&& instance, const Context& c) {
  const double scale = scale_of(c.op);
  return instance.flag("kScaled", scale != 1, "scaled", "model.embedding_multiplier")
      .said(scale != 1)
      .real("kScale", scale, "model.embedding_multiplier")
      .said(scale != 1);
}

std::int64_t stream_elements(const Operands& o) { return 2 * o.out(0).elements(); }

std::vector<Work> work(const Context& c) {
  const Tensor& x = c.out(0);
  if (split(c))
    return {scaled(Instance(c, "embedding_split"), c)
                .matrix(x, x.rows)
                .costs(c.bytes(x) + c.bytes(c.in(0)) +
                           static_cast<double>(bytes_of(DType::bf16, x.rows * x.cols) +
                                               bytes_of(DType::rest, x.rows * x.cols) +
                                               bytes_of(DType::tie, x.rows * x.cols)),
                       0)
                .rows(x.rows, x.cols, DType::bf16, all_operands(c.op))};
  return {scaled(Instance(c, "embedding_forward"), c)
              .element(x.dtype, "Act", kStreamType)
              .matrix(x, x.rows)
              .costs(2 * c.bytes(x) + c.bytes(c.in(0)), 0)
              .rows(x.rows, x.cols, x.dtype, all_operands(c.op))};
}

/// Counts the rows of dtable that can occur as read and written. Lanes are those of an fp32 row: with those of a bf16
/// row the fp32 sums spill (2,048 columns, sm_90a).
std::vector<Work> backward_work(const Context& c) {
  const Tensor &dx = c.in(0), &dtable = c.out(0);
  return {scaled(Instance(c, "embedding_backward"), c)
              .element(dx.dtype)
              .integer("kCols", dx.cols, kHidden)
              .integer("kPitch", dx.pitch, kHidden)
              .costs(c.bytes(dx) + 2.0 * 4 * std::min(dx.rows, dtable.rows) * dx.cols, 1.0 * dx.rows * dx.cols)
              .rows(dx.rows, dx.cols, DType::f32, all_operands(c.op))};
}

}  // namespace

constexpr OpRow kEmbedding = ForwardRow{.signature = signature,
                                        .weight_type = table_type,
                                        .exact = kNoOutputs,
                                        .writes_stream = true,
                                        .gradient = gradient,
                                        .model_flops = no_products,
                                        .stream_elements = stream_elements,
                                        .reads_split = true,
                                        .work = work};

constexpr OpRow kEmbeddingBackward =
    BackwardRow{.signature = backward_signature, .exact = kNoOutputs, .work = backward_work};

}  // namespace llmc::ops
