// Group on a GPU: a warp, or several, or the blocks of a cluster. A row moves as 16-byte vectors dealt to the lanes in
// turn, and stays in registers if it is short enough; reductions go over shuffles, then shared memory, then that of the
// cluster's other blocks (sm_90 and later).
//
// A block has max(kLanes, 128) threads. compiler/plan/lanes.h says how many lanes a row gets.
#pragma once

#include "device/cuda/ptx.h"
#include "device/cuda/vectors.h"

#define LLMC_KERNEL __global__ void
#define LLMC_BOUNDS(lanes) __launch_bounds__((lanes) < 128 ? 128 : (lanes))

namespace llmc {

/// Longer rows are read again by each operation.
constexpr int kKeptVectors = 8;

/// Rows first, first + step, ... below last.
struct RowRange {
  struct Iterator {
    int row, step;
    __device__ int operator*() const { return row; }
    __device__ void operator++() { row += step; }
    __device__ bool operator!=(Iterator end) const { return row < end.row; }
  };
  int first, last, step;
  __device__ Iterator begin() const { return {first, step}; }
  __device__ Iterator end() const { return {last, step}; }
};

template <int kLanes, class Element = float, int kCluster = 1>
class Group {
  static_assert(kLanes >= 32 && kLanes <= 1024 && (kLanes & (kLanes - 1)) == 0, "whole warps of one block");
  static_assert(kCluster == 1 || kCluster <= 8 && kLanes >= 128, "blocks of a cluster that every device has room for");
  static constexpr int kVector = 16 / sizeof(Element);
  static constexpr int kGroups = kLanes < 128 ? 128 / kLanes : 1;  // of a block
  static constexpr int kAll = kLanes * kCluster;                   // lanes of a row
  template <int kCols>
  static constexpr int kVectors = (kCols + kVector * kAll - 1) / (kVector * kAll);  // of one lane

 public:
  __device__ Group() : lane_(threadIdx.x % kLanes), group_(threadIdx.x / kLanes) {
    if constexpr (kCluster > 1) lane_ += cluster_rank() * kLanes;
  }
  /// A block's shared memory lasts until the others of its cluster have read it.
  __device__ ~Group() {
    if constexpr (kCluster > 1) cluster_barrier();
  }

  __device__ RowRange rows(int n) const {
    const int block = static_cast<int>(blockIdx.x) / kCluster, blocks = static_cast<int>(gridDim.x) / kCluster;
    return {block * kGroups + group_, n, blocks * kGroups};
  }

  template <int kCols, int kPitch = kCols, int kStride = kPitch, class T>
  __device__ Row<T, kCols, kPitch, 1, 0, kStride * sizeof(T) % 16 == 0> row(T* matrix, long long index) const {
    return {{}, matrix + index * kStride};
  }
  template <int kCols, class T>
  __device__ Row<T, kCols, kCols, 1, 0, true> row(T* vector) const {
    return {{}, vector};
  }
  template <class T>
  __device__ Run<T, 0, true> run(T* data, int count) const {
    return {{}, data, count};
  }
  template <class T>
  __device__ Run<T, 0, false> unaligned(T* data, int count) const {
    return {{}, data, count};
  }
  template <int kCols, int kSlice, class T>
  __device__ auto slice(T* matrix, long long index, int part) const {
    const int count = kCols - part * kSlice < kSlice ? kCols - part * kSlice : kSlice;
    return Run<T, kSlice, kCols * sizeof(T) % 16 == 0>{{}, matrix + index * kCols + part * kSlice, count};
  }
  template <int kSegments, int kCols, int kStep, class T>
  __device__ auto segments(T* data) const {
    return Row < T, kCols, kCols, kSegments, kStep, kCols % kVector == 0 && kStep * sizeof(T) % 16 == 0 > {{}, data};
  }

  template <class R>
  __device__ auto load(const R& row) const {
    if constexpr (kVectors < R::kTotal >> kKeptVectors) {
      return row.read_only();
    } else {
      Kept<typename R::Stored, kVectors<R::kTotal>, kVector, R::kTotal> kept;
#pragma unroll
      for (int k = 0; k < kVectors<R::kTotal>; ++k)
        if (column(k) < R::kTotal) row.read_words(column(k), kept.words[k]);
      return kept;
    }
  }

  template <int kCols>
  __device__ Columns<kVectors<kCols>, kVector, kCols> columns() const {
    return {};
  }
  template <class R, class F>
  __device__ Applied<R, F> apply(const R& row, F f) const {
    return {{}, row, f};
  }
  template <class T = float>
  __device__ Sums<T, kVector> sums() const {
    return {};
  }

  __device__ Sums<float, kVector> nothing() const { return {}; }
  __device__ Indices indices() const { return {}; }

  template <class... Arguments>
  __device__ __forceinline__ void map(Arguments&&... arguments) const {
    function_first([&](auto& f, auto&... rows) { each(f, rows...); }, arguments...);
  }

  template <class Out, class... Arguments>
  __device__ __forceinline__ void store(Out&& out, Arguments&&... arguments) const {
    function_first([&](auto& f, auto&... rows) { each([&](float& o, auto... v) { o = f(v...); }, out, rows...); },
                   arguments...);
  }

  template <class T = float, class... Arguments>
  __device__ __forceinline__ T sum(Arguments&&... arguments) const {
    Sums<T, kVector> partial = {};
    function_first([&](auto& f, auto&... rows) { each([&](T& s, auto... v) { s += f(v...); }, partial, rows...); },
                   arguments...);
    return total(partial);
  }

  template <class... Arguments>
  __device__ __forceinline__ float max(Arguments&&... arguments) const {
    Sums<float, kVector> partial;
#pragma unroll
    for (int e = 0; e < kVector; ++e) partial.value[e] = -__builtin_huge_valf();
    function_first(
        [&](auto& f, auto&... rows) { each([&](float& m, auto... v) { m = larger(m, f(v...)); }, partial, rows...); },
        arguments...);
    return combine(partial, [](float a, float b) { return larger(a, b); });
  }

  template <class T>
  __device__ T total(Sums<T, kVector>& partial) const {
    return combine(partial, [](T a, T b) { return a + b; });
  }

  __device__ bool owns(int column) const { return column / kVector % kAll == lane_; }
  __device__ bool leads() const { return lane_ == 0; }
  __device__ bool alone() const { return blockIdx.x < kCluster && group_ == 0; }

 private:
  __device__ static float larger(float a, float b) { return a > b ? a : b; }

  /// The first column of this lane's vector number k.
  __device__ int column(int k) const { return (k * kAll + lane_) * kVector; }

  template <class First, class... Rest>
  __device__ static auto& sized(First& first, Rest&... rest) {
    if constexpr (First::kPartial)
      return sized(rest...);
    else
      return first;
  }

  template <class F, class... Rows>
  __device__ __forceinline__ void each(F&& f, Rows&... rows) const {
    auto& shape = sized(rows...);
    using Shape = ShapeOf<decltype(shape)>;
    const int total = shape.total();
    if constexpr ((Shape::kTotal > 0 && kVectors<Shape::kTotal> <= kKeptVectors) || (Rows::kRegisters || ...)) {
#pragma unroll
      for (int k = 0; k < kVectors<Shape::kMost>; ++k)
        if (column(k) < total) whole_or_tail<Shape::kTotal>(f, total, k, rows...);
    } else {
      // What is written cannot be read ahead of; more copies of such a loop only take registers.
      constexpr int kCopies = ((Rows::kWritten && !Rows::kPartial) || ...) ? 2 : 4;
#pragma unroll kCopies
      for (int k = 0; column(k) < total; ++k) whole_or_tail<Shape::kTotal>(f, total, k, rows...);
    }
    (pad(rows), ...);
  }

  /// kTotal: 0 where only `total` knows it.
  template <int kTotal, class F, class... Rows>
  __device__ __forceinline__ void whole_or_tail(F& f, int total, int k, Rows&... rows) const {
    const int at = column(k);
    if (kTotal > 0 && kTotal % kVector == 0 || at + kVector <= total) {
      elements<true>(f, kVector, Piece<Rows, kVector>(rows, k, at)...);
    } else {
      elements<false>(f, total - at, Piece<Rows, kVector>(rows, k, at)...);
    }
  }

  template <bool kWhole, class F, class... Pieces>
  __device__ __forceinline__ static void elements(F& f, int count, Pieces&&... pieces) {
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      if (kWhole || e < count) f(pieces.value[e]...);
  }

  /// Zeros the padding that lies behind the last vector.
  template <class R>
  __device__ void pad(R& row) const {
    if constexpr (R::kWritten && R::kPadded > 0) {
      constexpr int kFrom = R::template kPaddedFrom<kVector>;
      if constexpr (kFrom < R::kPadded)
        for (int c = kFrom + lane_; c < R::kPadded; c += kAll) row.data[c] = from_float<typename R::Stored>(0.0f);
    }
  }

  /// Over the numbers of a lane, the lanes of a warp, the warps, the blocks of a cluster, always in the same order;
  /// every lane gets the result.
  template <class T, class Operation>
  __device__ T combine(Sums<T, kVector>& partial, Operation operation) const {
#pragma unroll
    for (int half = kVector / 2; half > 0; half /= 2)
#pragma unroll
      for (int e = 0; e < half; ++e) partial.value[e] = operation(partial.value[e], partial.value[e + half]);
    T result = partial.value[0];
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2)
      result = operation(result, __shfl_xor_sync(0xffffffffu, result, distance));
    if constexpr (kLanes > 32) {
      // Two sets in turn: whoever writes a set has met all lanes since they read it.
      __shared__ T of_warp[2][32];
      const int warp = group_ * (kLanes / 32);
      if (lane_ % 32 == 0) of_warp[turn_][warp + lane_ % kLanes / 32] = result;
      barrier();
      result = of_warp[turn_][warp + lane_ % (kLanes / 32)];
#pragma unroll
      for (int distance = kLanes / 64; distance > 0; distance /= 2)
        result = operation(result, __shfl_xor_sync(0xffffffffu, result, distance));
      if constexpr (kCluster > 1) {
        __shared__ T of_block[2];
        if (threadIdx.x == 0) of_block[turn_] = result;
        cluster_barrier();
        result = cluster_read(&of_block[turn_], lane_ % kCluster);
#pragma unroll
        for (int distance = kCluster / 2; distance > 0; distance /= 2)
          result = operation(result, __shfl_xor_sync(0xffffffffu, result, distance));
      }
      turn_ ^= 1;
    }
    return result;
  }

  /// Only the group's own lanes: groups of a block may have different numbers of rows.
  __device__ void barrier() const {
    if constexpr (kGroups == 1) {
      __syncthreads();
    } else {
      named_barrier(group_ + 1, kLanes);
    }
  }

  int lane_, group_;
  mutable int turn_ = 0;
};

}  // namespace llmc
