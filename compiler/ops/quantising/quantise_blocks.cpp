// quantise_blocks: operands of mxfp8 products. Each block of 32 elements along the sum is divided by a power of two,
// its scale in UE8M0, and rounded to e4m3 (OCP MX 1.0).
//
// A tensor over whose rows and over whose columns products sum is quantised for either, from the same numbers. The
// codes are those of two roundings, so that none is the other's transpose. As with quantise, a device without such
// products gets code times scale in bf16, which is exact.
#include "compiler/ops/quantising/quantise_blocks.h"

#include <fmt/format.h>

#include "compiler/ops/instance.h"
#include "compiler/ops/quantising/quantise.h"
#include "compiler/ops/rows.h"
#include "device/block_scales.h"

namespace llmc::ops {
namespace {

/// x -> numbers; or x -> codes, scales
void signature(const Operands& o) {
  const bool codes = o.out(0).dtype == DType::e4m3, down = o.op.as<BlockAttributes>().down;
  const Tensor& x = o.in(0);
  o.count(1, codes ? 2 : 1);
  o.same_shape(x, o.out(0));
  o.expect((down ? x.rows : x.cols) % kBlockElements == 0, "%{} [{}, {}] has a part of a block", x.name, x.rows,
           x.cols);
  o.expect(x.pitch == x.cols && o.out(0).pitch == x.cols, "rows without padding");
  if (codes) o.expect(o.out(1).cols == block_scale_bytes(x.rows, x.cols, down), "one scale a block");
}

std::vector<Work> work(const Context& c) {
  const Tensor &x = c.in(0), &y = c.out(0);
  const bool down = c.op.as<BlockAttributes>().down, codes = y.dtype == DType::e4m3;
  const std::int64_t parts = x.rows / kBlockElements * ((x.cols + kBlockColumns - 1) / kBlockColumns);
  const LaunchShape shape = down ? launch_shape(parts, kBlockColumns, x.dtype)
                                 : short_shape(x.elements() / kBlockElements, kBlockElements, x.dtype);
  return {Instance(c, "quantise_blocks")
              .named(shape_text(x))
              .element(x.dtype)
              .element(y.dtype, "Result", "precision.matmul")
              .integer("kRows", x.rows, "model")
              .integer("kCols", x.cols, "model")
              .flag("kDown", down, "down", "precision.matmul")
              .costs(c.bytes(x) + c.bytes(y) + (codes ? c.bytes(c.out(1)) : 0), 3.0 * x.rows * x.cols)
              .shaped(shape, fmt::format("{} rows of {}", x.rows, x.cols),
                      {c.op.inputs[0], c.op.outputs[0], codes ? Argument(c.op.outputs[1]) : "nullptr"})};
}

}  // namespace

std::string BlockAttributes::text() const { return flags_text({{"down", down}}); }

std::int64_t block_scale_bytes(std::int64_t rows, std::int64_t cols, bool down) {
  return down ? llmc::block_scale_bytes(cols, rows / kBlockElements)
              : llmc::block_scale_bytes(rows, cols / kBlockElements);
}

constexpr OpRow kQuantiseBlocks = OperandRow{.signature = signature, .weight_type = reads_bf16, .work = work};

}  // namespace llmc::ops
