// The simulated tensor core instructions follow the PTX ISA.
#include <gtest/gtest.h>

#include <vector>

#include "../../unit/cuda/numbers.h"
#include "device/cuda/launch.h"
#include "device/cuda/ptx.h"

namespace llmc {

void one_product(const unsigned short* a, const unsigned short* b, float* d, bool half);
void four_matrices(const unsigned short* matrices, unsigned* words, unsigned* transposed);

namespace {

template <class T>
T* put(Device& device, const std::vector<T>& values) {
  std::byte* memory = device.allocate(values.size() * sizeof(T));
  device.copy_in(memory, values.data(), values.size() * sizeof(T));
  return reinterpret_cast<T*>(memory);
}

template <class T>
std::vector<T> get(Device& device, const T* from, std::size_t count) {
  std::vector<T> values(count);
  device.copy_out(values.data(), from, count * sizeof(T));
  device.synchronize();
  return values;
}

std::vector<unsigned short> bits(const std::vector<float>& values, bool half) {
  std::vector<unsigned short> all;
  for (float value : values) all.push_back(half ? from_float<fp16>(value).bits : from_float<bf16>(value).bits);
  return all;
}

TEST(SimulatedMatrix, OneProduct) {
  const std::vector<float> a = normal(16 * 16, 1), b = normal(16 * 8, 2), c = normal(16 * 8, 3);
  Device device(0, 0);
  for (const bool half : {false, true}) {  // normal() are numbers of both types
    float* d = put(device, c);
    launch(device.stream(), Grid{1, 32}, one_product, put(device, bits(a, half)), put(device, bits(b, half)), d, half);
    const std::vector<float> result = get(device, d, 16 * 8);
    for (std::size_t row = 0; row < 16; ++row)
      for (std::size_t column = 0; column < 8; ++column) {
        double sum = c[row * 8 + column];
        for (std::size_t k = 0; k < 16; ++k) sum += static_cast<double>(a[row * 16 + k]) * b[k * 8 + column];
        // Sums of 17 numbers about 1 in fp32.
        EXPECT_NEAR(result[row * 8 + column], sum, 1e-5) << half << ", " << row << ", " << column;
      }
  }
}

TEST(SimulatedMatrix, Fp16IsRoundedLikeOnTheHost) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const float number = to_float(fp16{static_cast<unsigned short>(bits)});
    if (number == number) {
      ASSERT_EQ(number_of_f16(static_cast<unsigned short>(bits)), number) << bits;
      ASSERT_EQ(f16_bits(number), bits);
      for (const float v : {number * (1 + 0x1p-11f), number * (1 + 0x1p-12f), number * (1 - 0x1p-12f)})
        ASSERT_EQ(f16_bits(v), from_float<fp16>(v).bits) << v;
    } else {
      ASSERT_NE(number_of_f16(static_cast<unsigned short>(bits)), number_of_f16(static_cast<unsigned short>(bits)));
    }
  }
}

TEST(SimulatedMatrix, FourMatrices) {
  std::vector<unsigned short> matrices(4 * 64);
  for (std::size_t i = 0; i < matrices.size(); ++i) matrices[i] = static_cast<unsigned short>(i);
  Device device(0, 0);
  unsigned* words = put(device, std::vector<unsigned>(128));
  unsigned* transposed = put(device, std::vector<unsigned>(128));
  launch(device.stream(), Grid{1, 32}, four_matrices, put(device, matrices), words, transposed);
  const std::vector<unsigned> plain = get(device, words, 128), turned = get(device, transposed, 128);
  // PTX ISA, ldmatrix: thread 4 r + c has elements 2 c and 2 c + 1 of row r; with .trans, of column r.
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned m = 0; m < 4; ++m) {
      const unsigned r = lane / 4, c = lane % 4 * 2;
      EXPECT_EQ(plain[lane * 4 + m], (m * 64 + r * 8 + c) | (m * 64 + r * 8 + c + 1) << 16);
      EXPECT_EQ(turned[lane * 4 + m], (m * 64 + c * 8 + r) | (m * 64 + (c + 1) * 8 + r) << 16);
    }
}

}  // namespace
}  // namespace llmc
