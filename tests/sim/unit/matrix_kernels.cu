// Kernels of matrix_test.cpp: fragments by the PTX ISA's own formulas, through the simulated ptx.h.
#include "device/cuda/ptx.h"

namespace llmc {

/// d [16, 8] = a [16, 16] b [16, 8] + d, all row-major, bits of bf16 or fp16 and fp32. PTX ISA, "Matrix fragments for
/// mma.m16n8k16": groupID = lane >> 2, threadID_in_group = lane % 4.
__global__ void one_product(const unsigned short* a, const unsigned short* b, float* d, bool half) {
  const int lane = threadIdx.x, group = lane >> 2, in_group = lane % 4;
  unsigned a_words[4] = {}, b_words[2] = {};
  for (int i = 0; i < 8; ++i) {
    const int row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
    const int column = in_group * 2 + (i & 1) + (i < 4 ? 0 : 8);
    a_words[i / 2] |= static_cast<unsigned>(a[row * 16 + column]) << 16 * (i % 2);
  }
  for (int i = 0; i < 4; ++i) {
    const int row = in_group * 2 + (i & 1) + (i < 2 ? 0 : 8);
    b_words[i / 2] |= static_cast<unsigned>(b[row * 8 + group]) << 16 * (i % 2);
  }
  float d_values[4];
  for (int i = 0; i < 4; ++i) d_values[i] = d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)];
  (half ? mma_f16_16x8x16 : mma_bf16_16x8x16)(d_values, a_words, b_words);
  for (int i = 0; i < 4; ++i) d[(i < 2 ? group : group + 8) * 8 + in_group * 2 + (i & 1)] = d_values[i];
}

/// words [32, 4] and transposed [32, 4]: each lane's results for four matrices [4, 8, 8].
__global__ void four_matrices(const unsigned short* matrices, unsigned* words, unsigned* transposed) {
  __shared__ __align__(16) unsigned short rows[4 * 64];
  const int lane = threadIdx.x;
  for (int i = lane; i < 4 * 64; i += 32) rows[i] = matrices[i];
  __syncthreads();
  unsigned r[4];
  load_matrix_x4(r, rows + lane * 8);
  for (int i = 0; i < 4; ++i) words[lane * 4 + i] = r[i];
  load_matrix_x4_transposed(r, rows + lane * 8);
  for (int i = 0; i < 4; ++i) transposed[lane * 4 + i] = r[i];
}

}  // namespace llmc
