// Group on a GPU: part of a warp, a warp, several warps, or the blocks of a cluster. A row moves as 16-byte vectors
// dealt to the lanes in turn, and stays in registers if it is short enough. Reductions use shuffles, then shared
// memory. Rows shared by the blocks of a cluster (sm_90 and later) support softmax and no other reduction.
//
// A block has max(kLanes, 128) threads. compiler/ops/lanes.h determines the lanes per row.
#pragma once

#include "device/cuda/lane_exchange.h"
#include "device/cuda/ptx.h"
#include "device/cuda/transposed_tile.h"
#include "device/cuda/vectors.h"
#include "device/lanes.h"

#define LLMC_KERNEL __global__ void
#define LLMC_THREADS(lanes) ((lanes) < 128 ? 128 : (lanes))
#define LLMC_BOUNDS(lanes) __launch_bounds__(LLMC_THREADS(lanes))
// Makes ptxas issue a row's loads together. Without it ptxas delays some to save registers that are not needed.
#define LLMC_BOUNDS_RESIDENT(lanes, resident) \
  __launch_bounds__(LLMC_THREADS(lanes), ((resident) + LLMC_THREADS(lanes) - 1) / LLMC_THREADS(lanes))

namespace llmc {

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
class Group : LaneExchange<Group<kLanes, Element, kCluster>, kLanes, kCluster> {
  using Exchange = LaneExchange<Group<kLanes, Element, kCluster>, kLanes, kCluster>;
  using Exchange::barrier, Exchange::combine, Exchange::meet, Exchange::own_lanes;
  using Exchange::kAll, Exchange::kGroups;
  using Exchange::lane_, Exchange::group_;
  static_assert(kLanes >= 4 && kLanes <= 1024 && (kLanes & (kLanes - 1)) == 0, "a part of a warp, or whole ones");
  static_assert(kCluster == 1 || (kCluster <= 8 && kLanes >= 128),
                "blocks of a cluster that every device has room for");
  static constexpr int kVector = 16 / sizeof(Element);
  template <int kCols>
  static constexpr int kVectors = (kCols + kVector * kAll - 1) / (kVector * kAll);  // per lane

 public:
  __device__ RowRange rows(int n) const {
    const int block = static_cast<int>(blockIdx.x) / kCluster, blocks = static_cast<int>(gridDim.x) / kCluster;
    return {block * kGroups + group_, n, blocks * kGroups};
  }

  __device__ RowRange shared_rows(int n) const {
    static_assert(kCluster == 1, "the groups of one block");
    return {static_cast<int>(blockIdx.x), n, static_cast<int>(gridDim.x)};
  }
  __device__ RowRange share(int first, int last) const { return {first + group_, last, kGroups}; }

  template <int kCols, int kPitch = kCols, int kStride = kPitch, class T>
  __device__ Row<T, kCols, kPitch, 1, 0, kStride * sizeof(T) % 16 == 0> row(T* matrix, long long index) const {
    return {{}, matrix + index * kStride};
  }
  template <bool kWanted, int kCols, int kPitch = kCols, int kStride = kPitch, class T>
  __device__ auto row_if(T* matrix, long long index) const {
    if constexpr (kWanted) {
      return row<kCols, kPitch, kStride>(matrix, index);
    } else {
      return nothing();
    }
  }
  template <int kRows, int kCols, int kPitch = kCols, int kStride = kPitch, class T>
  __device__ auto result(T* matrix, long long index) const {
    return row<kCols, kPitch, kStride>(matrix, index);
  }
  template <int kCols, class T>
  __device__ Row<T, kCols, kCols, 1, 0, true> row(T* vector) const {
    return {{}, vector};
  }
  template <int kCols, class T>
  __device__ Row<T, kCols, kCols, 1, 0, false> unaligned_row(T* vector) const {
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
  template <int kMost, class T>
  __device__ Run<T, kMost, true> block(T* data, int count) const {
    return {{}, data, count};
  }
  template <bool kWanted, int kMost, class T>
  __device__ auto block_if(T* data, int count) const {
    if constexpr (kWanted) {
      return block<kMost>(data, count);
    } else {
      return nothing();
    }
  }
  template <int kMost = 0, class Copy, class Rest, class Ties>
  __device__ SplitRun<Copy, Rest, Ties, kMost> split(Copy* copy, Rest* rest, Ties* ties, long long at,
                                                     int count) const {
    return {{}, copy + at, rest + at, ties + at / 8, count};
  }
  template <bool kSplit, int kMost, class Copy>
  __device__ auto masters(float* master, Copy* copy, rest16* rest, ties8* ties, long long at, int count) const {
    if constexpr (kSplit) {
      return split<kMost>(copy, rest, ties, at, count);
    } else {
      return block<kMost>(master + at, count);
    }
  }
  template <int kCols, int kSlice, class T>
  __device__ auto slice(T* matrix, long long index, int part) const {
    T* const data = matrix + index * kCols + part * kSlice;
    if constexpr (kCols % kSlice == 0) {
      return row<kSlice>(data);
    } else {
      const int count = kCols - part * kSlice < kSlice ? kCols - part * kSlice : kSlice;
      return Run<T, kSlice, kCols * sizeof(T) % 16 == 0>{{}, data, count};
    }
  }
  template <int kSegments, int kCols, int kStep, class T>
  __device__ auto segments(T* data) const {
    return Row<T, kCols, kCols, kSegments, kStep, kCols % kVector == 0 && kStep * sizeof(T) % 16 == 0>{{}, data};
  }

  template <class R>
  __device__ auto load(const R& row) const {
    if constexpr (kVectors < R::kTotal >> kKeptVectors) {
      return row.read_only();
    } else {
      Kept<typename R::Stored, kVectors<R::kTotal>, kVector, R::kTotal> kept;
#pragma unroll
      for (int k = 0; k < kVectors<R::kTotal>; ++k)
        if (within<R::kTotal>(k, R::kTotal)) row.read_words(column(k), kept.words[k]);
      return kept;
    }
  }

  template <int kCols, int kPitch = kCols, class T>
  __device__ __forceinline__ auto load_ahead(T* matrix, int index, int n) const {
    const auto now = row<kCols, kPitch>(matrix, index);
    using R = ShapeOf<decltype(now)>;
    constexpr int kOwn = kVectors<kCols>;
    if constexpr (kOwn > kSoftmaxVectors) {
      return now.read_only();
    } else if constexpr (kCluster == 1 || kOwn * kLanes * 16 > kAheadBytes || !R::template kAlwaysWhole<kVector>) {
      return load(now);
    } else {
      __shared__ uint4 ahead[kOwn][kLanes];  // each lane reads only its own copies: no barrier
      const auto ask = [&](int which) {
        const auto* const data = row<kCols, kPitch>(matrix, which).data;
#pragma unroll
        for (int k = 0; k < kOwn; ++k)
          if (within<kCols>(k, kCols)) copy_async<16>(&ahead[k][threadIdx.x], data + column(k), true);
      };
      if (!asked_) ask(index);
      asked_ = true;
      wait_for_copies();
      Kept<typename R::Stored, kOwn, kVector, kCols> kept;
#pragma unroll
      for (int k = 0; k < kOwn; ++k)
        if (within<kCols>(k, kCols)) read_aligned(&ahead[k][threadIdx.x], kept.words[k]);
      const int next = index + static_cast<int>(gridDim.x) / kCluster;
      if (next < n) ask(next);
      return kept;
    }
  }

  template <bool kWanted, class T>
  __device__ auto run_if(T* data, int count) const {
    if constexpr (kWanted) {
      return run(data, count);
    } else {
      return nothing();
    }
  }

  template <bool kWanted, class R>
  __device__ auto load_if(const R& row) const {
    if constexpr (kWanted) {
      return load(row);
    } else {
      return nothing();
    }
  }

  template <int kCols>
  __device__ Columns<kVectors<kCols>, kVector, kCols> columns() const {
    return {};
  }
  template <int kCols, class T>
  __device__ RoundedColumns<T, kVectors<kCols>, kVector, kCols> columns() const {
    return {};
  }
  template <int kSegments, int kCols, class T>
  __device__ auto columns() const {
    return columns<kSegments * kCols, T>();
  }
  template <class T, int kCount, int kCols>
  __device__ Kept<T, kCount, kVector, kCols> load(const RoundedColumns<T, kCount, kVector, kCols>& columns) const {
    return columns;
  }
  template <int kRows, int kCols, int kSlice, class T>
  __device__ __forceinline__ void add_rows(Columns<kVectors<kSlice>, kVector, kSlice>& sums, const T* matrix,
                                           int part) const {
    // A slice that may be shorter has branches, so unrolling would only repeat them.
    [[maybe_unused]] constexpr int kTogether = kCols % kSlice == 0 ? 32 : 1;  // unused by g++, which has no such pragma
#pragma unroll kTogether
    for (int row = 0; row < kRows; ++row)
      map(slice<kCols, kSlice>(matrix, row, part), sums, [](float v, float& sum) { sum += v; });
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

  /// Calls the function with a Pair of each row, whose numbers of columns are even.
  template <class... Arguments>
  __device__ __forceinline__ void map_pairs(Arguments&&... arguments) const {
    function_first([&](auto& f, auto&... rows) { each<2>(f, rows...); }, arguments...);
  }

  template <class Out, class... Arguments>
  __device__ __forceinline__ void store(Out&& out, Arguments&&... arguments) const {
    function_first([&](auto& f, auto&... rows) { each([&](float& o, auto... v) { o = f(v...); }, out, rows...); },
                   arguments...);
  }

  /// The threads of a block take the columns in turn and add the groups in order.
  template <class T, int kCols, int kPitch, bool kAligned>
  __device__ void store_shared(Row<T, kCols, kPitch, 1, 0, kAligned> out,
                               const Columns<kVectors<kCols>, kVector, kCols>& columns) const {
    __shared__ float of_group[kGroups][kCols];
#pragma unroll
    for (int k = 0; k < kVectors<kCols>; ++k)
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (column(k) + e < kCols) of_group[group_][column(k) + e] = columns.value[k][e];
    __syncthreads();
    for (int c = group_ * kLanes + lane_; c < kPitch; c += kGroups * kLanes) {
      float sum = 0.0f;
      if (c < kCols)
        for (int group = 0; group < kGroups; ++group) sum += of_group[group][c];
      out.data[c] = from_float<T>(sum);
    }
    __syncthreads();  // before the values just read are overwritten
  }

  template <class T = float, class... Arguments>
  __device__ __forceinline__ T sum(Arguments&&... arguments) const {
    Sums<T, kVector> partial = {};
    function_first([&](auto& f, auto&... rows) { each([&](T& s, auto... v) { s += f(v...); }, partial, rows...); },
                   arguments...);
    return total(partial);
  }

  /// Each lane takes powers relative to the highest of its own elements, so that it need not wait for the row's. The
  /// missing factor is known after the lanes have exchanged their maxima once.
  template <class R>
  __device__ __forceinline__ auto softmax(const R& row) const {
    static_assert(kLanes >= 32, "lanes meet in whole warps");
    float highest = kLowest, sum = 0.0f, weighted = 0.0f;
    if constexpr (R::kRegisters && kVectors<R::kTotal> <= kKeptPowers) {
      KeptPowers<kVectors<R::kTotal>, kVector, R::kTotal> powers;
      Sums<float, kVector> most, partial;
#pragma unroll
      for (int e = 0; e < kVector; ++e) most.value[e] = kLowest;
      each([](float& m, float v) { m = max(m, v); }, most, row);
      highest = fold(most, [](float a, float b) { return max(a, b); });
      // One number, not one per vector element, because there are no registers for those.
      each(
          [&](float& power, float v) {
            const float below = v - highest;
            power = exp(below);
            weighted = fma(power, below, weighted);
          },
          powers.own, row);
      each([](float& s, float power) { s += power; }, partial, powers.own);
      sum = fold(partial, [](float a, float b) { return a + b; });
      const float own = highest;
      meet(highest, sum, weighted);
      powers.highest = highest, powers.total = sum, powers.weighted = weighted, powers.factor = exp(own - highest);
      return powers;
    } else {
      const auto add = [&](int k) {
        float value[kVector];
        row.read(k, column(k), value);
        float top = highest, part = 0.0f, products = 0.0f;
#pragma unroll
        for (int e = 0; e < kVector; ++e)
          if (column(k) + e < R::kTotal) top = max(top, value[e]);
#pragma unroll
        for (int e = 0; e < kVector; ++e) {
          if (column(k) + e >= R::kTotal) continue;
          const float below = value[e] - top, power = exp(below);
          part += power;
          products = fma(power, below, products);
        }
        const float below = highest - top, factor = exp(below);
        weighted = fma(fma(sum, below, weighted), factor, products);
        sum = fma(sum, factor, part);
        highest = top;
      };
      if constexpr (R::kRegisters) {
#pragma unroll
        for (int k = 0; k < kVectors<R::kTotal>; ++k)
          if (within<R::kTotal>(k, R::kTotal)) add(k);
      } else {
        [[maybe_unused]] constexpr int kTogether = kVectors<R::kTotal> > kSoftmaxVectors ? 4 : 1;  // in flight
#pragma unroll kTogether
        for (int k = 0; column(k) < R::kTotal; ++k) add(k);
      }
      meet(highest, sum, weighted);
      return ReadPowers<R>{{}, row, highest, sum, weighted};
    }
  }

  template <class R>
  __device__ Capped<R> capped(const R& row, float cap) const {
    return {row, cap};
  }

  template <class T>
  __device__ T total(Sums<T, kVector>& partial) const {
    return combine(partial, [](T a, T b) { return a + b; });
  }

  __device__ float most(Sums<float, kVector>& partial) const {
    return combine(partial, [](float a, float b) { return max(a, b); });
  }

  template <class... Arguments>
  __device__ __forceinline__ float largest(Arguments&&... arguments) const {
    Sums<float, kVector> partial;
#pragma unroll
    for (int e = 0; e < kVector; ++e) partial.value[e] = -__builtin_huge_valf();
    function_first(
        [&](auto& f, auto&... rows) { each([&](float& m, auto... v) { m = max(m, f(v...)); }, partial, rows...); },
        arguments...);
    return most(partial);
  }

  template <int kRows, int kCols>
  __device__ CollectedRows<kRows, kCols> collected() const {
    return CollectedRows<kRows, kCols>(group_);
  }
  template <int kPiece, int kHeight, int kRows, int kCols, class Code>
  __device__ __forceinline__ void store_transposed(Code* to, const CollectedRows<kRows, kCols>& rows, int first,
                                                   int count, const float* scales, float shared) const {
    synchronise();
    rows.template write<kLanes, kPiece, kHeight>(lane_, to, first, count, scales, shared);
    synchronise();  // before the codes just read are overwritten
  }

  __device__ bool owns(int column) const { return column / kVector % kAll == lane_; }
  __device__ bool leads() const { return lane_ == 0; }
  __device__ bool alone() const { return blockIdx.x < kCluster && group_ == 0; }
  /// Shuffles alone do not order accesses to memory.
  __device__ void synchronise() const {
    static_assert(kCluster == 1, "the lanes of one block");
    if constexpr (kLanes <= 32) {
      __syncwarp(own_lanes());
    } else {
      barrier();
    }
  }

 private:
  static constexpr float kLowest = -3.40282347e38f;  // finite: a lane without columns may subtract it from itself

  /// First column of this lane's k-th vector.
  __device__ int column(int k) const { return (k * kAll + lane_) * kVector; }
  /// Returns whether it lies in the row. kTotal: 0 if only `total` knows the row's length.
  template <int kTotal>
  __device__ bool within(int k, int total) const {
    return (kTotal > 0 && (k + 1) * kAll * kVector <= kTotal) || column(k) < total;
  }

  template <class First, class... Rest>
  __device__ static auto& sized(First& first, Rest&... rest) {
    if constexpr (First::kPartial)
      return sized(rest...);
    else
      return first;
  }

  /// kTogether: elements of a row that the function takes at once.
  template <int kTogether = 1, class F, class... Rows>
  __device__ __forceinline__ void each(F&& f, Rows&... rows) const {
    auto& shape = sized(rows...);
    using Shape = ShapeOf<decltype(shape)>;
    const int total = shape.total();
    if constexpr ((Shape::kTotal > 0 && kVectors<Shape::kTotal> <= kSoftmaxVectors) || (Rows::kRegisters || ...)) {
#pragma unroll
      for (int k = 0; k < kVectors<Shape::kMost>; ++k)
        if (within<Shape::kTotal>(k, total)) whole_or_tail<Shape::kTotal, kTogether>(f, total, k, rows...);
    } else {
      // Reads cannot be moved ahead of writes, so unrolling a writing loop further only costs registers.
      [[maybe_unused]] constexpr int kCopies = ((Rows::kWritten && !Rows::kPartial) || ...) ? 2 : 4;
#pragma unroll kCopies
      for (int k = 0; column(k) < total; ++k) whole_or_tail<Shape::kTotal, kTogether>(f, total, k, rows...);
    }
    (pad(rows), ...);
  }

  /// kTotal: 0 if only `total` knows it.
  template <int kTotal, int kTogether, class F, class... Rows>
  __device__ __forceinline__ void whole_or_tail(F& f, int total, int k, Rows&... rows) const {
    const int at = column(k);
    if ((kTotal > 0 && kTotal % kVector == 0) || at + kVector <= total) {
      elements<true, kTogether>(f, kVector, Piece<Rows, kVector>(rows, k, at)...);
    } else {
      elements<false, kTogether>(f, total - at, Piece<Rows, kVector>(rows, k, at)...);
    }
  }

  template <bool kWhole, int kTogether, class F, class... Pieces>
  __device__ __forceinline__ static void elements(F& f, int count, Pieces&&... pieces) {
#pragma unroll
    for (int e = 0; e < kVector; e += kTogether) {
      if (!kWhole && e >= count) continue;
      if constexpr (kTogether == 2)
        f(Pair{pieces.value[e], pieces.value[e + 1]}...);
      else
        f(pieces.value[e]...);
    }
  }

  /// Zeros the padding after the last vector.
  template <class R>
  __device__ void pad(R& row) const {
    if constexpr (R::kWritten && R::kPadded > 0) {
      constexpr int kFrom = R::template kPaddedFrom<kVector>;
      if constexpr (kFrom < R::kPadded)
        for (int c = kFrom + lane_; c < R::kPadded; c += kAll) row.data[c] = from_float<typename R::Stored>(0.0f);
    }
  }

  mutable bool asked_ = false;  // for the next row that load_ahead() reads
};

}  // namespace llmc
