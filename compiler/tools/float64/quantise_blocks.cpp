// quantise_blocks: blocks of 32 elements as e4m3 numbers times a power of two. No trainer writes codes of blocks yet.
#include "compiler/ops/quantising/quantise_blocks.h"

#include <algorithm>
#include <cmath>

#include "compiler/tools/float64/formats.h"
#include "compiler/tools/float64/rules.h"

namespace llmc::float64 {
namespace {

constexpr std::int64_t kBlock = 32;

/// Rounds the block whose element `e` is at row i + e * rows_apart, column j + e * cols_apart.
void round_block(const Matrix& x, const Matrix& y, std::int64_t i, std::int64_t j, std::int64_t rows_apart,
                 std::int64_t cols_apart) {
  double largest = 0;
  for (std::int64_t e = 0; e < kBlock; ++e) {
    const double v = x.at(i + e * rows_apart, j + e * cols_apart);
    largest = std::isfinite(v) ? std::max(largest, std::abs(v)) : HUGE_VAL;
    if (largest == HUGE_VAL) break;
  }
  const double scale = scale_of(largest, kE4m3);
  for (std::int64_t e = 0; e < kBlock; ++e) {
    const std::int64_t row = i + e * rows_apart, col = j + e * cols_apart;
    y.at(row, col) = nearest(x.at(row, col) / scale, kE4m3) * scale;
  }
}

}  // namespace

void quantise_blocks(OpRun& run) {
  const Matrix &x = run.in(0), &y = run.out(0);
  const bool down = run.op.as<ops::BlockAttributes>().down;
  run.outputs[0].exact = true;
  for (std::int64_t i = 0; i < x.rows; i += down ? kBlock : 1)
    for (std::int64_t j = 0; j < x.cols; j += down ? 1 : kBlock) round_block(x, y, i, j, down, !down);
}

}  // namespace llmc::float64
