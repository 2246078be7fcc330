// A group on the CPU: one lane. Row operations are loops over the row at full vector width; rows are spread over the
// threads in fixed, contiguous shares.
//
// Sums run in kSumLanes partial sums that are combined in a fixed tree, so that bits depend neither on the vector width
// nor on the number of threads.
#pragma once

#include "device/math.h"
#include "device/types.h"

#define LLMC_KERNEL void

extern "C" int omp_get_thread_num();
extern "C" int omp_get_num_threads();

namespace llmc {

/// Rows [first, last) for a range-based for.
struct RowRange {
  struct Iterator {
    int row;
    int operator*() const { return row; }
    void operator++() { ++row; }
    bool operator!=(const Iterator& other) const { return row != other.row; }
  };
  int first, last;
  Iterator begin() const { return {first}; }
  Iterator end() const { return {last}; }
};

/// A row that is read: the memory itself.
template <int kCols, class T>
struct Row {
  const T* data;
  LLMC_INLINE float operator[](int i) const { return to_float(data[i]); }
};

/// Two and three results of one element function.
struct Two {
  float a, b;
};
struct Three {
  float a, b, c;
};

/// Sums of columns over several rows.
template <int kCols>
struct Columns {
  float* sums;
};

template <int kLanes>
class Group {
  static_assert(kLanes == 1, "a CPU group has one lane");
  static constexpr int kSumLanes = 32;

 public:
  /// This thread's share of `n` rows.
  RowRange rows(int n) const {
    const long long thread = omp_get_thread_num(), threads = omp_get_num_threads();
    return {static_cast<int>(n * thread / threads), static_cast<int>(n * (thread + 1) / threads)};
  }

  /// The rows of block `b` when `n` rows are cut into `blocks` blocks.
  static RowRange block(int b, int blocks, int n) {
    return {static_cast<int>(static_cast<long long>(n) * b / blocks), static_cast<int>(static_cast<long long>(n) * (b + 1) / blocks)};
  }

  /// Whether this lane writes what the group has one of.
  static constexpr bool first() { return true; }

  /// Keeps a row in registers where that helps.
  template <int kCols, class T>
  Row<kCols, T> load(const T* row) const {
    return {row};
  }

  /// A row that is too long to be kept: read again at each use.
  template <int kCols, class T>
  Row<kCols, T> stream(const T* row) const {
    return {row};
  }

  /// Sum over columns of f(elements of the rows).
  template <class F, int kCols, class T, class... Others>
  LLMC_INLINE float sum(F f, Row<kCols, T> row, Others... others) const {
    float lanes[kSumLanes] = {};
    constexpr int kWhole = kCols / kSumLanes * kSumLanes;
    for (int i = 0; i < kWhole; i += kSumLanes)
#pragma omp simd
      for (int l = 0; l < kSumLanes; ++l) lanes[l] += f(row[i + l], others[i + l]...);
    for (int i = kWhole; i < kCols; ++i) lanes[i - kWhole] += f(row[i], others[i]...);
    for (int width = kSumLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) lanes[l] += lanes[l + width];
    return lanes[0];
  }

  /// Largest f(element).
  template <class F, int kCols, class T>
  LLMC_INLINE float max(F f, Row<kCols, T> row) const {
    float lanes[kSumLanes];
    for (int l = 0; l < kSumLanes; ++l) lanes[l] = -3.4e38f;
    constexpr int kWhole = kCols / kSumLanes * kSumLanes;
    for (int i = 0; i < kWhole; i += kSumLanes)
#pragma omp simd
      for (int l = 0; l < kSumLanes; ++l) {
        const float value = f(row[i + l]);
        lanes[l] = value > lanes[l] ? value : lanes[l];
      }
    for (int i = kWhole; i < kCols; ++i) lanes[0] = f(row[i]) > lanes[0] ? f(row[i]) : lanes[0];
    float largest = lanes[0];
    for (int l = 1; l < kSumLanes; ++l) largest = lanes[l] > largest ? lanes[l] : largest;
    return largest;
  }

  /// out[i] = f(elements i of the rows). `out` may be one of the rows' memory.
  template <class Out, class F, int kCols, class T, class... Others>
  LLMC_INLINE void store(Out* out, F f, Row<kCols, T> row, Others... others) const {
#pragma omp simd
    for (int i = 0; i < kCols; ++i) out[i] = from_float<Out>(f(row[i], others[i]...));
  }

  template <class Out, class F, int kCols, class T, class... Others>
  LLMC_INLINE void store2(Out* a, Out* b, F f, Row<kCols, T> row, Others... others) const {
#pragma omp simd
    for (int i = 0; i < kCols; ++i) {
      const Two value = f(row[i], others[i]...);
      a[i] = from_float<Out>(value.a);
      b[i] = from_float<Out>(value.b);
    }
  }

  template <class Out, class F, int kCols, class T, class... Others>
  LLMC_INLINE void store3(Out* a, Out* b, Out* c, F f, Row<kCols, T> row, Others... others) const {
#pragma omp simd
    for (int i = 0; i < kCols; ++i) {
      const Three value = f(row[i], others[i]...);
      a[i] = from_float<Out>(value.a);
      b[i] = from_float<Out>(value.b);
      c[i] = from_float<Out>(value.c);
    }
  }

  /// Writes zeros to columns [kCols, kPitch).
  template <int kCols, int kPitch, class Out>
  LLMC_INLINE void zero_padding(Out* out) const {
    for (int i = kCols; i < kPitch; ++i) out[i] = from_float<Out>(0.0f);
  }

  /// Begins sums of columns; they end up in `sums` [kCols].
  template <int kCols>
  Columns<kCols> columns(float* sums) const {
    for (int i = 0; i < kCols; ++i) sums[i] = 0.0f;
    return {sums};
  }

  template <class F, int kCols, class... Rows>
  LLMC_INLINE void accumulate(Columns<kCols>& columns, F f, Rows... rows) const {
    float* sums = columns.sums;
#pragma omp simd
    for (int i = 0; i < kCols; ++i) sums[i] += f(rows[i]...);
  }

  template <int kCols>
  void finish(Columns<kCols>&) const {}

  /// Calls f(i) for each i < n, spread over all groups: for work that has no rows.
  template <class F>
  LLMC_INLINE void each(int n, F f) const {
    const RowRange share = rows(n);
#pragma omp simd
    for (int i = share.first; i < share.last; ++i) f(i);
  }

  /// Sum over i < n of f(i) by this group alone, fixed order, in double.
  template <class F>
  double sum_of(int n, F f) const {
    double total = 0;
    for (int i = 0; i < n; ++i) total += f(i);
    return total;
  }

  /// Sum over i < n of f(i) in fp32, by this group: kSumLanes partial sums and a fixed tree.
  template <class F>
  LLMC_INLINE float sum_to(int n, F f) const {
    return sum2_to(n, [=](int i) { return Two{f(i), 0.0f}; }).a;
  }

  /// The same for two sums at once.
  template <class F>
  LLMC_INLINE Two sum2_to(int n, F f) const {
    float a[kSumLanes] = {}, b[kSumLanes] = {};
    const int whole = n / kSumLanes * kSumLanes;
    for (int i = 0; i < whole; i += kSumLanes)
#pragma omp simd
      for (int l = 0; l < kSumLanes; ++l) {
        const Two value = f(i + l);
        a[l] += value.a;
        b[l] += value.b;
      }
    for (int i = whole; i < n; ++i) {
      const Two value = f(i);
      a[i - whole] += value.a;
      b[i - whole] += value.b;
    }
    for (int width = kSumLanes / 2; width > 0; width /= 2)
      for (int l = 0; l < width; ++l) {
        a[l] += a[l + width];
        b[l] += b[l + width];
      }
    return {a[0], b[0]};
  }

  /// Calls f(i) for each i < n, by this group alone.
  template <class F>
  LLMC_INLINE void each_of(int n, F f) const {
#pragma omp simd
    for (int i = 0; i < n; ++i) f(i);
  }

  /// Waits until every lane of the group is here and its writes are seen.
  void sync() const {}

  /// True for the one group that does what is done once.
  bool alone() const { return omp_get_thread_num() == 0; }
};

}  // namespace llmc
