// Compares kernels that write codes of the forward pass's result transposed with the same kernels that write them row
// by row, on a simulated and on a real GPU: all other results have the same bits, and the codes those of
// transpose_codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "device/cuda/launch.h"
#include "device/fp8.h"
#include "instance.h"
#include "numbers.h"

namespace llmc {

// Instances from transposed_codes.cmake.
#define LLMC_NORM(name)                                                                                             \
  LLMC_DECLARE_INSTANCE(rms_norm_backward_quantised_##name, const bf16*, const float*, const float*, const float*,  \
                        const bf16*, const bf16*, bf16*, float*, e4m3*, float*, bf16*, e4m3*, float*)               \
  LLMC_DECLARE_INSTANCE(rms_norm_backward_quantised_##name##_transposed, const bf16*, const float*, const float*,   \
                        const float*, const bf16*, const bf16*, bf16*, float*, e4m3*, float*, bf16*, e4m3*, float*, \
                        const float*, float*)
LLMC_NORM(few)
LLMC_NORM(parts)
LLMC_NORM(wide)
LLMC_NORM(four)
#undef LLMC_NORM
#define LLMC_SWIGLU(name)                                                                                              \
  LLMC_DECLARE_INSTANCE(swiglu_backward_quantised_##name, const bf16*, const bf16*, const bf16*, bf16*, e4m3*, float*, \
                        bf16*, e4m3*, float*)                                                                          \
  LLMC_DECLARE_INSTANCE(swiglu_backward_quantised_##name##_transposed, const bf16*, const bf16*, const bf16*, bf16*,   \
                        e4m3*, float*, bf16*, e4m3*, float*, const float*, float*)
LLMC_SWIGLU(few)
LLMC_SWIGLU(wide)
LLMC_SWIGLU(long)
#undef LLMC_SWIGLU

namespace {

std::size_t count_of(int a, int b) { return static_cast<std::size_t>(a) * static_cast<std::size_t>(b); }

/// Results of a launch, as bits.
template <class T>
std::vector<unsigned char> bytes_of(Device& device, const T* from, std::size_t count) {
  std::vector<unsigned char> bytes(count * sizeof(T));
  device.copy_out(bytes.data(), from, bytes.size());
  device.synchronize();
  return bytes;
}

struct Fixture {
  int rows, cols;
  unsigned lanes;
  int collected;
  Device device{0, 0};
  Pieces pieces{device, std::size_t{16} << 20};

  Grid grid(int parts, unsigned of_row, bool transposed) const {
    const unsigned threads = std::max(of_row, 128u), groups = threads / of_row;
    const auto bytes = static_cast<unsigned>(count_of(collected, cols)) * groups;
    return {(static_cast<unsigned>(parts) + groups - 1) / groups, threads, 1, transposed ? bytes : 0};
  }
  template <class T>
  T* fresh(std::size_t count) {
    return reinterpret_cast<T*>(pieces.put(std::vector<unsigned char>(count * sizeof(T), 0xcc)));
  }
  /// Rows of very different magnitudes, one of zeros, so that codes become subnormal under one scale.
  std::vector<float> uneven(int width, unsigned seed) const {
    std::vector<float> values = normal(count_of(rows, width), seed);
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < width; ++c) {
        float& v = values[count_of(r, width) + static_cast<std::size_t>(c)];
        v = r % 11 == 3 ? 0.0f : to_float(from_float<bf16>(std::ldexp(v, -(r * 7 % 13))));
      }
    return values;
  }
  std::vector<float> powers(int count) const {
    std::vector<float> factors(static_cast<std::size_t>(count));
    for (int c = 0; c < count; ++c) factors[static_cast<std::size_t>(c)] = std::ldexp(1.0f, c % 7 - 5);
    return factors;
  }

  /// Checks transposed codes, and their scales, against codes of rows.
  void check(const e4m3* codes, const std::vector<float>& scales, float shared, const e4m3* transposed,
             const float* transposed_scales) {
    const std::vector<unsigned char> of_rows = bytes_of(device, codes, count_of(rows, cols)),
                                     found = bytes_of(device, transposed, count_of(rows, cols));
    int subnormal = 0;
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < cols; ++c) {
        const e4m3 code{of_rows[count_of(r, cols) + static_cast<std::size_t>(c)]};
        const e4m3 expected = from_float<e4m3>(to_float(code) * (scales[static_cast<std::size_t>(r)] / shared));
        subnormal += (expected.bits & 0x7f) < 8 && (code.bits & 0x7f) >= 8;
        ASSERT_EQ(found[count_of(c, rows) + static_cast<std::size_t>(r)], expected.bits) << r << " " << c;
      }
    EXPECT_GT(subnormal, 0);
    EXPECT_EQ(pieces.get(transposed_scales, static_cast<std::size_t>(cols)),
              std::vector<float>(static_cast<std::size_t>(cols), shared));
  }
};

template <class Plain, class Transposed>
void check_norm(Plain plain, Transposed transposed, int rows, int cols, int blocks, unsigned lanes, int collected) {
  Fixture f{rows, cols, lanes, collected};
  const std::size_t all = count_of(rows, cols), columns = static_cast<std::size_t>(cols),
                    tokens = static_cast<std::size_t>(rows);
  const bf16 *dy = f.pieces.put_bf16(normal(all, 1)), *dresidual = f.pieces.put_bf16(normal(all, 2)),
             *factors = f.pieces.put_bf16(f.powers(cols));
  const float *x = f.pieces.put(f.uneven(cols, 3)), *weight = f.pieces.put(normal(columns, 4)),
              *rstd = f.pieces.put(std::vector<float>(tokens, 0.75f));
  std::vector<unsigned char> expected[4];
  e4m3* y_codes[2];
  float* y_scales = nullptr;
  std::vector<float> scales_of_rows;
  for (const bool with : {false, true}) {
    bf16* const dx = f.fresh<bf16>(all);
    float *const dweight = f.fresh<float>(count_of(blocks, cols)), *const scales = f.fresh<float>(tokens);
    e4m3* const codes = f.fresh<e4m3>(all);
    y_codes[with] = f.fresh<e4m3>(all);
    bf16* const none = nullptr;
    const Grid grid = f.grid(blocks, lanes, with);
    if (!with) {
      y_scales = f.fresh<float>(tokens);
      launch(f.device.stream(), grid, plain, dy, x, weight, rstd, dresidual, factors, dx, dweight, codes, scales, none,
             y_codes[0], y_scales);
      scales_of_rows = f.pieces.get(y_scales, tokens);
    } else {
      const float shared = *std::ranges::max_element(scales_of_rows);
      float* const transposed_scales = f.fresh<float>(columns);
      launch(f.device.stream(), grid, transposed, dy, x, weight, rstd, dresidual, factors, dx, dweight, codes, scales,
             none, y_codes[1], y_scales, f.pieces.put({shared}), transposed_scales);
      f.check(y_codes[0], scales_of_rows, shared, y_codes[1], transposed_scales);
    }
    const std::vector<unsigned char> found[] = {bytes_of(f.device, dx, all),
                                                bytes_of(f.device, dweight, count_of(blocks, cols)),
                                                bytes_of(f.device, codes, all), bytes_of(f.device, scales, tokens)};
    for (int i = 0; i < 4; ++i)
      if (with)
        EXPECT_TRUE(found[i] == expected[i]) << i;
      else
        expected[i] = found[i];
  }
}

template <class Plain, class Transposed>
void check_swiglu(Plain plain, Transposed transposed, int rows, int cols, unsigned lanes) {
  Fixture f{rows, cols, lanes, 16};
  const std::size_t all = count_of(rows, cols), columns = static_cast<std::size_t>(cols),
                    tokens = static_cast<std::size_t>(rows);
  const bf16 *dout = f.pieces.put_bf16(normal(all, 1)), *gate_up = f.pieces.put_bf16(f.uneven(2 * cols, 2)),
             *factors = f.pieces.put_bf16(f.powers(2 * cols));
  bf16* const none = nullptr;
  e4m3 *const codes[] = {f.fresh<e4m3>(2 * all), f.fresh<e4m3>(2 * all)}, *const out_codes[] = {f.fresh<e4m3>(all),
                                                                                                f.fresh<e4m3>(all)};
  float *const scales[] = {f.fresh<float>(tokens), f.fresh<float>(tokens)}, *const out_scales = f.fresh<float>(tokens),
               *const transposed_scales = f.fresh<float>(columns);
  launch(f.device.stream(), f.grid(rows, 128, false), plain, dout, gate_up, factors, none, codes[0], scales[0], none,
         out_codes[0], out_scales);
  const std::vector<float> scales_of_rows = f.pieces.get(out_scales, tokens);
  const float shared = *std::ranges::max_element(scales_of_rows);
  launch(f.device.stream(), f.grid(rows / 16, lanes, true), transposed, dout, gate_up, factors, none, codes[1],
         scales[1], none, out_codes[1], out_scales, f.pieces.put({shared}), transposed_scales);
  f.check(out_codes[0], scales_of_rows, shared, out_codes[1], transposed_scales);
  EXPECT_TRUE(bytes_of(f.device, codes[0], 2 * all) == bytes_of(f.device, codes[1], 2 * all));
  EXPECT_TRUE(bytes_of(f.device, scales[0], tokens) == bytes_of(f.device, scales[1], tokens));
}

// Numbers as in transposed_codes.cmake.
#define LLMC_BOTH(kernel) kernel, kernel##_transposed
TEST(CollectedCodes, NormWithFewRows) { check_norm(LLMC_BOTH(rms_norm_backward_quantised_few), 48, 80, 6, 32, 8); }
TEST(CollectedCodes, NormInParts) { check_norm(LLMC_BOTH(rms_norm_backward_quantised_parts), 240, 144, 6, 32, 32); }
TEST(CollectedCodes, NormOfWideRows) { check_norm(LLMC_BOTH(rms_norm_backward_quantised_wide), 96, 2064, 2, 512, 32); }
TEST(CollectedCodes, NormWithFourCodesAtOnce) {
  check_norm(LLMC_BOTH(rms_norm_backward_quantised_four), 24, 80, 2, 32, 12);
}
TEST(CollectedCodes, SwigluWithFewRows) { check_swiglu(LLMC_BOTH(swiglu_backward_quantised_few), 48, 80, 32); }
TEST(CollectedCodes, SwigluOfWideRows) { check_swiglu(LLMC_BOTH(swiglu_backward_quantised_wide), 80, 2064, 512); }
TEST(CollectedCodes, SwigluOfRowsLongerThanItsLanes) {
  check_swiglu(LLMC_BOTH(swiglu_backward_quantised_long), 32, 2064, 128);
}
#undef LLMC_BOTH

}  // namespace
}  // namespace llmc
