// Copies rows of a matrix to shared memory, asynchronously, with all threads of a block.
#pragma once

#include "device/cuda/vectors.h"

namespace llmc {

/// Padding elements per row in shared memory, 16 bytes: rows of a multiple of 32 bytes then have pitches of an odd
/// multiple of 16, so that eight rows lie in different banks.
template <class T>
constexpr int kRowPaddingOf = 16 / sizeof(T);

/// The largest access of at most 16 bytes, in elements, that divides rows of kWidth elements kPitch apart.
template <class T, int kWidth, int kPitch>
constexpr int kAccessWidth = kWidth % (16 / sizeof(T)) == 0 && kPitch % (16 / sizeof(T)) == 0 ? 16 / sizeof(T)
                             : kWidth % (8 / sizeof(T)) == 0 && kPitch % (8 / sizeof(T)) == 0 ? 8 / sizeof(T)
                                                                                              : 4 / sizeof(T);

/// Starts copying kRows rows of kWidth elements, kPitch apart, into rows of kPadded, kPadded + kRowPaddingOf<T> apart,
/// with all threads of the block. Columns past kWidth and rows past `count` become zero.
template <int kThreads, int kRows, int kWidth, int kPadded, int kPitch, class T>
__device__ __forceinline__ void copy_tile(T* tile, const T* from, int count) {
  constexpr int kAccess = kAccessWidth<T, kWidth, kPitch>, kStride = kPadded + kRowPaddingOf<T>;
  constexpr int kAccesses = kPadded / kAccess;                                               // per row
  constexpr int kAcross = kAccesses > 16 ? 32 : kAccesses > 8 ? 16 : kAccesses > 4 ? 8 : 4;  // threads per row
  constexpr int kDown = kThreads / kAcross;
  const int row = threadIdx.x / kAcross, access = threadIdx.x % kAcross;
  const T* source = from + row * kPitch + access * kAccess;
  T* target = tile + row * kStride + access * kAccess;
#pragma unroll
  for (int i = 0; i < kRows; i += kDown) {
    if (kRows % kDown != 0 && row + i >= kRows) break;
#pragma unroll
    for (int j = 0; j < kAccesses; j += kAcross) {
      if (kAccesses % kAcross != 0 && access + j >= kAccesses) break;
      const bool real = row + i < count && (access + j) * kAccess < kWidth;
      copy_async<kAccess * sizeof(T)>(target + i * kStride + j * kAccess, source + i * kPitch + j * kAccess, real);
    }
  }
}

/// Starts copying kCount numbers; zeros from `count` on.
template <int kThreads, int kCount>
__device__ __forceinline__ void copy_line(float* line, const float* from, int count) {
#pragma unroll
  for (int i = 0; i < kCount; i += kThreads) {
    const int at = i + threadIdx.x;
    if (kCount % kThreads != 0 && at >= kCount) break;
    copy_async<4>(line + at, from + at, at < count);
  }
}

}  // namespace llmc
