// column_sum: the sum over a matrix's rows, as one partial sum for each block of rows; column_reduce adds these up.
#include <fmt/format.h>

#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// dy -> sums (or partial sums)
void sum_signature(const Operands& o) { o.count(1, 1); }

/// partial sums -> gradient, or fewer partial sums
void reduce_signature(const Operands& o) {
  o.count(1, 1);
  o.expect(o.in(0).rows % o.out(0).rows == 0 && o.in(0).cols == o.out(0).cols, "adds up whole groups of rows");
}

int sum_of_rows(const Op&) { return 0; }

std::vector<Work> sum_work(const Context& c) {
  const Tensor &x = c.in(0), &partial = c.out(0);
  return {Instance(c, "column_sum")
              .named(std::to_string(x.cols))
              .element(x.dtype)
              .matrix(x, x.rows)
              .integer("kBlocks", partial.rows, kTokens)
              .costs(c.bytes(x) + c.bytes(partial), 1.0 * x.rows * x.cols)
              .rows(partial.rows, x.cols, x.dtype, all_operands(c.op),
                    fmt::format("{} rows of {} in {} blocks", x.rows, x.cols, partial.rows))};
}

/// Rows of a matrix are contiguous: adding up every 32nd row equals adding up rows that are 32 times as long.
std::vector<Work> reduce_work(const Context& c) {
  const Tensor &partial = c.in(0), &sum = c.out(0);
  const std::int64_t left = sum.rows, cols = left * partial.cols;
  const bool accumulates = sum.role == Role::gradient;
  Instance instance(c, "column_reduce");
  if (left > 1) instance.named("to_" + std::to_string(left));
  Work work = instance.named(std::to_string(partial.cols))
                  .integer("kBlocks", partial.rows / left, kTokens)
                  .integer("kCols", cols, kHidden)
                  .costs(c.bytes(partial) + (left > 1 ? 1 : 2) * c.bytes(sum), 1.0 * partial.rows * partial.cols)
                  .rows((cols + 127) / 128, 128, DType::f32,
                        {c.op.inputs[0], c.op.outputs[0], accumulates ? c.adds() : "false"},
                        fmt::format("{} rows of {}", partial.rows, partial.cols));
  work.adds = accumulates;
  return {std::move(work)};
}

}  // namespace

constexpr OpRow kColumnSum =
    BackwardRow{.signature = sum_signature, .exact = kNoOutputs, .row_sum = sum_of_rows, .work = sum_work};

constexpr OpRow kColumnReduce = BackwardRow{.signature = reduce_signature, .exact = kNoOutputs, .work = reduce_work};

}  // namespace llmc::ops
