// Group on the CPU: one lane. A row is the memory itself, a row operation is a vector loop over it, and rows are
// divided among OpenMP threads in contiguous ranges.
#pragma once

#include "device/cpu/operands.h"
#include "device/cpu/soft_cap.h"

#define LLMC_KERNEL void
#define LLMC_BOUNDS(lanes)
#define LLMC_BOUNDS_RESIDENT(lanes, resident)

extern "C" int omp_get_thread_num() noexcept;
extern "C" int omp_get_num_threads() noexcept;

namespace llmc {

/// Prefetch distance of a row operation in bytes. Hardware prefetching stops at the end of a 4 KiB page and starts
/// again in the next one.
constexpr int kAhead = 6144;

/// Bytes of a matrix above which little of it is still in the caches of a few cores after it was written.
constexpr long long kStreamed = 4 << 20;

/// Codes of rows that are yet to be transposed.
template <int kRows, int kCols>
struct CollectedRows {
  e4m3 codes[kRows][kCols];
  e4m3* row(int i) { return codes[i]; }
};

/// Contiguous range of n rows for one thread.
struct RowRange {
  struct Iterator {
    int row;
    int operator*() const { return row; }
    void operator++() { ++row; }
    bool operator!=(Iterator other) const { return row != other.row; }
  };
  int first, last;
  Iterator begin() const { return {first}; }
  Iterator end() const { return {last}; }
};

template <int kLanes, class = float, int kCluster = 1>
class Group {
  static_assert(kLanes == 1 && kCluster == 1, "a group on the CPU is one lane");

 public:
  RowRange rows(int n) const {
    const long long thread = omp_get_thread_num(), threads = omp_get_num_threads();
    return {static_cast<int>(n * thread / threads), static_cast<int>(n * (thread + 1) / threads)};
  }

  RowRange shared_rows(int n) const { return rows(n); }
  RowRange share(int first, int last) const { return {first, last}; }

  template <int kCols, int kPitch = kCols, int kStride = kPitch, class T>
  Row<T, kCols, kPitch, 1, 0> row(T* matrix, long long index = 0) const {
    return {{}, matrix + index * kStride};
  }
  template <bool kWanted, int kCols, int kPitch = kCols, int kStride = kPitch, class T>
  auto row_if(T* matrix, long long index) const {
    if constexpr (kWanted) {
      return row<kCols, kPitch, kStride>(matrix, index);
    } else {
      return nothing();
    }
  }
  template <int kRows, int kCols, int kPitch = kCols, int kStride = kPitch, class T>
  auto result(T* matrix, long long index) const {
    constexpr bool kFits = sizeof(T) * kRows * static_cast<long long>(kStride) <= kStreamed;
    if constexpr (sizeof(T) == sizeof(float) && !kFits && kPitch % 16 == 0 && kStride % 16 == 0) {
      return StreamedRow<kCols, kPitch>{{}, matrix + index * kStride};
    } else {
      return row<kCols, kPitch, kStride>(matrix, index);
    }
  }
  template <int kCols, class T>
  auto unaligned_row(T* vector) const {
    return row<kCols>(vector);
  }
  template <class T>
  Run<T> run(T* data, int count) const {
    return {{}, data, count};
  }
  template <class T>
  Run<T> unaligned(T* data, int count) const {
    return {{}, data, count};
  }
  template <int kMost, class T>
  Run<T> block(T* data, int count) const {
    return {{}, data, count};
  }
  template <bool kWanted, int kMost, class T>
  auto block_if(T* data, int count) const {
    return run_if<kWanted>(data, count);
  }
  template <int kMost = 0, class Copy, class Rest, class Ties>
  SplitRun<Copy, Rest, Ties> split(Copy* copy, Rest* rest, Ties* ties, long long at, int count) const {
    return {{}, {copy + at, rest + at, ties + at / 8}, count};
  }
  template <bool kSplit, int kMost, class Copy>
  auto masters(float* master, Copy* copy, rest16* rest, ties8* ties, long long at, int count) const {
    if constexpr (kSplit) {
      return split<kMost>(copy, rest, ties, at, count);
    } else {
      return block<kMost>(master + at, count);
    }
  }
  template <int kCols, int kSlice, class T>
  Run<T> slice(T* matrix, long long index, int part) const {
    const int count = kCols - part * kSlice < kSlice ? kCols - part * kSlice : kSlice;
    return {{}, matrix + index * kCols + part * kSlice, count};
  }
  template <int kSegments, int kCols, int kStep, class T>
  Row<T, kCols, kCols, kSegments, kStep> segments(T* data) const {
    return {{}, data};
  }
  template <class T, int kCols, int kPitch, int kSegments, int kStep>
  Row<const T, kCols, kPitch, kSegments, kStep> load(Row<T, kCols, kPitch, kSegments, kStep> row) const {
    return {{}, row.data};
  }
  template <int kCols, int kPitch = kCols, class T>
  auto load_ahead(T* matrix, long long index, int) const {
    return load(row<kCols, kPitch>(matrix, index));
  }
  template <bool kWanted, class T>
  auto run_if(T* data, int count) const {
    if constexpr (kWanted) {
      return run(data, count);
    } else {
      return nothing();
    }
  }
  template <bool kWanted, class R>
  auto load_if(R row) const {
    if constexpr (kWanted) {
      return load(row);
    } else {
      return nothing();
    }
  }
  template <int kCols, class T = float>
  Columns<kCols, T> columns() const {
    return columns<1, kCols, T>();
  }
  template <int kSegments, int kCols, class T>
  Columns<kCols, T, kSegments> columns() const {
    Columns<kCols, T, kSegments> zeros;
    for (int c = 0; c < kSegments * kCols; ++c) zeros.data[c] = from_float<T>(0.0f);
    return zeros;
  }
  template <int kCols, class T, int kSegments>
  ReadColumns<kCols, T, kSegments> load(const Columns<kCols, T, kSegments>& columns) const {
    return {{}, columns.data};
  }
  template <class T, int kCols, int kPitch>
  LLMC_ALWAYS Powers<kCols> softmax(Row<T, kCols, kPitch, 1, 0> row) const {
    return powers_of<kCols>(row);
  }
  template <class R>
  LLMC_ALWAYS auto capped(const R& row, float cap) const {
    Columns<R::cols()> result;
    store(result, row, [=](float v) { return soft_cap(v, cap); });
    return result;
  }
  template <int kCols>
  LLMC_ALWAYS Powers<kCols> softmax(const Columns<kCols>& row) const {
    return powers_of<kCols>(load(row));
  }
  template <int kCols, class R>
  LLMC_ALWAYS Powers<kCols> powers_of(R row) const {
    Powers<kCols> powers;
    const float highest = powers.highest = largest(row, [](float v) { return v; });
    Sums<float> weighted;
    map(weighted, powers, row, [=](float& sum, float& power, float v) {
      const float below = v - highest;
      power = exp(below);
      sum = fma(power, below, sum);
    });
    powers.total = sum(powers, [](float power) { return power; });
    powers.weighted = total(weighted);
    return powers;
  }
  template <int kRows, int kCols, int kSlice, class T>
  void add_rows(Columns<kSlice>& sums, const T* matrix, int part) const {
    for (int row = 0; row < kRows; ++row)
      map(slice<kCols, kSlice>(matrix, row, part), sums, [](float v, float& sum) { sum += v; });
  }
  template <int kRows, int kCols>
  CollectedRows<kRows, kCols> collected() const {
    return {};
  }
  template <int kPiece, int kHeight, int kRows, int kCols, class Code>
  void store_transposed(Code* to, const CollectedRows<kRows, kCols>& rows, int first, int count, const float* scales,
                        float shared) const {
    for (int row = 0; row < count; ++row)
      for (int col = 0; col < kCols; ++col)
        to[static_cast<long long>(col) * kHeight + first + row] =
            from_float<Code>(to_float(rows.codes[row][col]) * (scales[first + row] / shared));
  }
  template <class T = float>
  Sums<T> sums() const {
    return {};
  }

  Sums<float> nothing() const { return {}; }
  Indices indices() const { return {}; }

  template <class... Arguments>
  LLMC_ALWAYS void map(Arguments&&... arguments) const {
    function_first([](auto& f, auto&... rows) LLMC_ALWAYS { each(f, rows...); }, arguments...);
  }

  template <class... Arguments>
  LLMC_ALWAYS void map_pairs(Arguments&&... arguments) const {
    function_first([](auto& f, auto&... rows) LLMC_ALWAYS { each_pair(f, rows...); }, arguments...);
  }

  template <class Out, class... Arguments>
  LLMC_ALWAYS void store(Out&& out, Arguments&&... arguments) const {
    function_first([&](auto& f, auto&... rows)
                       LLMC_ALWAYS { each([&](float& o, auto... v) { o = f(v...); }, out, rows...); },
                   arguments...);
  }

  template <class R, int kCols>
  LLMC_ALWAYS void store_shared(R out, const Columns<kCols>& columns) const {
    store(out, columns, [](float sum) { return sum; });
  }

  template <class T = float, class... Arguments>
  LLMC_ALWAYS T sum(Arguments&&... arguments) const {
    Sums<T> partial;
    function_first([&](auto& f, auto&... rows)
                       LLMC_ALWAYS { each([&](T& s, auto... v) { s += f(v...); }, partial, rows...); },
                   arguments...);
    return total(partial);
  }

  template <class T>
  T total(Sums<T>& partial) const {
    return combine(partial, [](T a, T b) { return a + b; });
  }

  float most(Sums<float>& partial) const {
    return combine(partial, [](float a, float b) { return larger(a, b); });
  }

  template <class... Arguments>
  LLMC_ALWAYS float largest(Arguments&&... arguments) const {
    Sums<float> partial;
    for (float& m : partial.data) m = -__builtin_huge_valf();
    function_first([&](auto& f, auto&... rows)
                       LLMC_ALWAYS { each([&](float& m, auto... v) { m = larger(m, f(v...)); }, partial, rows...); },
                   arguments...);
    return most(partial);
  }

  static constexpr bool owns(int) { return true; }
  static constexpr bool leads() { return true; }
  static constexpr void synchronise() {}
  static bool alone() { return omp_get_thread_num() == 0; }

 private:
  static float larger(float a, float b) { return a > b ? a : b; }

  /// Reduces the partial results pairwise.
  template <class T, class Operation>
  static T combine(Sums<T>& partial, Operation operation) {
    for (int half = kPartials / 2; half > 0; half /= 2)
      for (int i = 0; i < half; ++i) partial.data[i] = operation(partial.data[i], partial.data[i + half]);
    return partial.data[0];
  }

  template <class First, class... Rest>
  static auto& sized(First& first, Rest&... rest) {
    if constexpr (First::kPartial)
      return sized(rest...);
    else
      return first;
  }

  template <class... Rows, class F, class... Pointers>
  LLMC_ALWAYS static void one_each(F& f, int first, int i, Pointers... at) {
    f(Element(at[Rows::kPartial ? i : first + i]).get()...);
  }

  /// The body is a separate function, because `omp simd` turns local variables of the loop into arrays.
  template <class... Rows, class F, class... Pointers>
  LLMC_ALWAYS static void columns_each(F& f, int first, int count, Pointers... at) {
#pragma omp simd
    for (int i = 0; i < count; ++i) one_each<Rows...>(f, first, i, at...);
  }

  template <class F, class... Blocks>
  LLMC_ALWAYS static void one_of_block(F& f, int i, const Blocks&... blocks) {
    f(Element(blocks[i]).get()...);
  }

  template <class F, class... Blocks>
  LLMC_ALWAYS static void block_each(F& f, const Blocks&... blocks) {
#pragma omp simd
    for (int i = 0; i < kPartials; ++i) one_of_block(f, i, blocks...);
  }

  template <class F, class... Elements>
  LLMC_ALWAYS static void with_pairs(F& f, Elements&&... elements) {
    f(Pair{elements.first.get(), elements.second.get()}...);
  }

  template <class F, class... Rows>
  LLMC_ALWAYS __attribute__((flatten)) static void each_pair(F& f, Rows&... rows) {
    auto& shape = sized(rows...);
    const int cols = shape.cols();
    for (int s = 0; s < shape.kSegments; ++s)
#pragma omp simd
      for (int i = 0; i < cols; i += 2) with_pairs(f, PairElement(rows.segment(s) + i)...);
    (rows.pad(), ...);
  }

  template <class R, class Pointer>
  LLMC_ALWAYS static void prefetch(Pointer at, int first) {
    if constexpr (R::kInMemory) {
      const char* line = reinterpret_cast<const char*>(at + first) + kAhead;
      for (unsigned i = 0; i < kPartials * sizeof(*at); i += 64) __builtin_prefetch(line + i);
    }
  }

  template <class R, class... Parts>
  LLMC_ALWAYS static void prefetch(const SplitPointer<Parts...>& at, int first) {
    prefetch<R>(at.copy, first);
    prefetch<R>(at.rest, first);
  }

  /// Processes whole blocks, then the remaining columns.
  template <class... Rows, class F, class... Pointers>
  LLMC_ALWAYS static void blocks_each(F& f, int cols, Pointers... at) {
    int first = 0;
    for (; first + kPartials <= cols; first += kPartials) {
      (prefetch<Rows>(at, first), ...);
      block_each(f, Block<Pointers>(at, Rows::kPartial ? 0 : first)...);
    }
    columns_each<Rows...>(f, first, cols - first, at...);
  }

  template <class F, class... Rows>
  LLMC_ALWAYS __attribute__((flatten)) static void each(F&& f, Rows&... rows) {
    auto& shape = sized(rows...);
    const int cols = shape.cols();
    for (int s = 0; s < shape.kSegments; ++s) blocks_each<Rows...>(f, cols, rows.segment(s)...);
    (rows.pad(), ...);
  }
};

}  // namespace llmc
