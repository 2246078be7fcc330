// Compares kernels that transpose codes with the codec on the host, on a simulated and on a real GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "device/cuda/launch.h"
#include "device/fp8.h"
#include "instance.h"
#include "numbers.h"

namespace llmc {

// Instances from transposed_codes.cmake.
LLMC_DECLARE_INSTANCE(transpose_codes_small, const e4m3*, const float*, const bf16*, const float*, e4m3*, float*)
LLMC_DECLARE_INSTANCE(transpose_codes_large, const e4m3*, const float*, const bf16*, const float*, e4m3*, float*)
LLMC_DECLARE_INSTANCE(quantise_transposed_small, const bf16*, e4m3*, bf16*, float*, e4m3*, float*)
LLMC_DECLARE_INSTANCE(quantise_transposed_wide, const bf16*, e4m3*, bf16*, float*, e4m3*, float*)
LLMC_DECLARE_INSTANCE(quantise_transposed_pair, const bf16*, e4m3*, bf16*, float*, e4m3*, float*)

namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::size_t at(int row, int pitch, int col) { return static_cast<std::size_t>(row) * pitch + col; }

struct Memory {
  Device device{0, 0};
  Pieces pieces{device, std::size_t{4} << 20};

  e4m3* put(const std::vector<e4m3>& codes) {
    std::byte* const piece = pieces.take(codes.size());
    device.copy_in(piece, codes.data(), codes.size());
    return reinterpret_cast<e4m3*>(piece);
  }
  std::vector<e4m3> get(const e4m3* from, std::size_t count) {
    std::vector<e4m3> codes(count);
    device.copy_out(codes.data(), from, count);
    device.synchronize();
    return codes;
  }
};

struct TransposeCodes {
  void (*kernel)(const e4m3*, const float*, const bf16*, const float*, e4m3*, float*);
  int height, width, pitch;
  bool folded;

  /// All codes in each row; scales from the shared one down to 2^-40 of it.
  void check(float shared) const {
    Memory memory;
    std::vector<e4m3> x(at(height, pitch, 0));
    for (std::size_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<unsigned char>(i * 37 + i / 256);
    std::vector<float> scales(static_cast<std::size_t>(height)), factors(static_cast<std::size_t>(width));
    for (int r = 0; r < height; ++r) scales[static_cast<std::size_t>(r)] = std::ldexp(0.25f, -(r % 41));
    for (int c = 0; c < width; ++c) factors[static_cast<std::size_t>(c)] = std::ldexp(1.0f, c % 7 - 5);
    e4m3* const y = memory.put(std::vector<e4m3>(at(width, height, 0)));
    float* const row_scales = memory.pieces.put(std::vector<float>(static_cast<std::size_t>(width)));
    const auto tiles = static_cast<unsigned>(((height + 127) / 128) * ((width + 127) / 128));
    launch(memory.device.stream(), Grid{tiles, 256}, kernel, memory.put(x), memory.pieces.put(scales),
           folded ? memory.pieces.put_bf16(factors) : nullptr, memory.pieces.put({shared}), y, row_scales);
    const std::vector<e4m3> found = memory.get(y, at(width, height, 0));
    const std::vector<float> of_rows = memory.pieces.get(row_scales, static_cast<std::size_t>(width));
    for (int c = 0; c < width; ++c) {
      const auto column = static_cast<std::size_t>(c);
      const float scale = folded ? shared / factors[column] : shared;
      ASSERT_TRUE(of_rows[column] == scale || (scale != scale && of_rows[column] != of_rows[column])) << c;
      for (int r = 0; r < height; ++r) {
        const float factor = scales[static_cast<std::size_t>(r)] / shared;
        const e4m3 code = x[at(r, pitch, c)], expected = from_float<e4m3>(to_float(code) * factor);
        ASSERT_EQ(found[at(c, height, r)].bits, expected.bits)
            << r << " " << c << " " << int{code.bits} << " " << factor;
      }
    }
  }
};

struct QuantiseTransposed {
  void (*kernel)(const bf16*, e4m3*, bf16*, float*, e4m3*, float*);
  int height, width, pitch;
  unsigned cluster;
  bool straight;

  /// A row's largest number is at another place in each row, also in the last column; one row is zero.
  void check() const {
    Memory memory;
    std::vector<float> w = normal(at(height, pitch, 0), 5, 0.02f);
    for (int r = 0; r < height; ++r) {
      w[at(r, pitch, r % 3 ? r * 131 % width : width - 1)] = r % 2 ? -0.75f : 3.0f;
      if (r == 7) std::fill_n(&w[at(r, pitch, 0)], pitch, 0.0f);
    }
    e4m3* const y = memory.put(std::vector<e4m3>(at(width, height, 0)));
    bf16* const scales = memory.pieces.put_bf16(std::vector<float>(static_cast<std::size_t>(height)));
    float* const ones = memory.pieces.put(std::vector<float>(static_cast<std::size_t>(width)));
    const auto blocks = static_cast<unsigned>((height + 63) / 64) * cluster;
    e4m3* const codes = straight ? memory.put(std::vector<e4m3>(w.size())) : nullptr;
    float* const code_scales =
        straight ? memory.pieces.put(std::vector<float>(static_cast<std::size_t>(height))) : nullptr;
    launch(memory.device.stream(), Grid{blocks, 256, cluster}, kernel, memory.pieces.put_bf16(w), y, scales, ones,
           codes, code_scales);
    const std::vector<e4m3> found = memory.get(y, at(width, height, 0));
    const std::vector<float> of_rows = memory.pieces.get(scales, static_cast<std::size_t>(height));
    EXPECT_EQ(memory.pieces.get(ones, static_cast<std::size_t>(width)),
              std::vector<float>(static_cast<std::size_t>(width), 1.0f));
    for (int r = 0; r < height; ++r) {
      float largest = 0;
      for (int c = 0; c < width; ++c) largest = std::max(largest, std::abs(w[at(r, pitch, c)]));
      const float scale = e4m3_weight_scale(largest);
      ASSERT_EQ(of_rows[static_cast<std::size_t>(r)], scale) << r;
      for (int c = 0; c < width; ++c)
        ASSERT_EQ(found[at(c, height, r)].bits, from_float<e4m3>(w[at(r, pitch, c)] / scale).bits) << r << " " << c;
    }
    if (!straight) return;
    const std::vector<float> of_codes = memory.pieces.get(code_scales, static_cast<std::size_t>(height));
    EXPECT_EQ(of_codes, of_rows);
    const std::vector<e4m3> lying = memory.get(codes, w.size());
    for (int r = 0; r < height; ++r)
      for (int c = 0; c < width; ++c) ASSERT_EQ(lying[at(r, pitch, c)].bits, found[at(c, height, r)].bits);
  }
};

// Numbers as in transposed_codes.cmake.
TEST(TransposedCodes, LessThanATile) { TransposeCodes{transpose_codes_small, 48, 80, 80, false}.check(0.25f); }
TEST(TransposedCodes, SeveralTiles) { TransposeCodes{transpose_codes_large, 272, 144, 160, true}.check(0.25f); }
TEST(TransposedCodes, ScaleThatIsNotFinite) { TransposeCodes{transpose_codes_small, 48, 80, 80, false}.check(kNan); }
TEST(TransposedCodes, WeightOfOneBlock) { QuantiseTransposed{quantise_transposed_small, 48, 80, 80, 8, false}.check(); }
TEST(TransposedCodes, WeightOfACluster) {
  QuantiseTransposed{quantise_transposed_wide, 144, 2320, 2336, 8, true}.check();
}
TEST(TransposedCodes, WeightOfAPairOfBlocks) {
  QuantiseTransposed{quantise_transposed_pair, 80, 528, 528, 2, true}.check();
}

}  // namespace
}  // namespace llmc
