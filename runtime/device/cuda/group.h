// A group on a GPU: kLanes lanes of one block. Rows move as 16-byte accesses; sums go through shuffles and shared memory in
// a fixed order.
//
// Lane l holds elements [8 (s kLanes + l), + 8) of step s, whatever the element type, so that rows of different types line up.
#pragma once

#include "device/math.h"
#include "device/types.h"

#define LLMC_KERNEL __global__ void

namespace llmc {

struct Two {
  float a, b;
};
struct Three {
  float a, b, c;
};

/// Rows first, first + step, ... below last, for a range-based for.
struct RowRange {
  struct Iterator {
    int row, step, last;
    __device__ int operator*() const { return row; }
    __device__ void operator++() { row += step; }
    __device__ bool operator!=(const Iterator&) const { return row < last; }
  };
  int first, last, step;
  __device__ Iterator begin() const { return {first, step, last}; }
  __device__ Iterator end() const { return {last, step, last}; }
};

constexpr int kVector = 8;

__device__ inline void load_vector(const float* from, float (&to)[kVector]) {
  const float4 a = *reinterpret_cast<const float4*>(from), b = *reinterpret_cast<const float4*>(from + 4);
  to[0] = a.x, to[1] = a.y, to[2] = a.z, to[3] = a.w;
  to[4] = b.x, to[5] = b.y, to[6] = b.z, to[7] = b.w;
}

__device__ inline void load_vector(const bf16* from, float (&to)[kVector]) {
  const uint4 raw = *reinterpret_cast<const uint4*>(from);
  const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    to[2 * i] = bits_to_float(words[i] << 16);
    to[2 * i + 1] = bits_to_float(words[i] & 0xffff0000u);
  }
}

__device__ inline void store_vector(float* to, const float (&from)[kVector]) {
  *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  *reinterpret_cast<float4*>(to + 4) = make_float4(from[4], from[5], from[6], from[7]);
}

__device__ inline void store_vector(bf16* to, const float (&from)[kVector]) {
  unsigned words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i)
    words[i] = from_float<bf16>(from[2 * i]).bits | static_cast<unsigned>(from_float<bf16>(from[2 * i + 1]).bits) << 16;
  *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
}

/// The elements of one step of a row: eight, or fewer at the row's end.
template <int kCols, class T>
__device__ inline void load_step(const T* row, int begin, float (&to)[kVector]) {
  if (begin + kVector <= kCols) {
    load_vector(row + begin, to);
  } else {
#pragma unroll
    for (int e = 0; e < kVector; ++e) to[e] = begin + e < kCols ? to_float(row[begin + e]) : 0.0f;
  }
}

template <int kCols, class T>
__device__ inline void store_step(T* row, int begin, const float (&from)[kVector]) {
  if (begin + kVector <= kCols) {
    store_vector(row + begin, from);
  } else {
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      if (begin + e < kCols) row[begin + e] = from_float<T>(from[e]);
  }
}

/// A lane's share of a row, in registers.
template <int kCols, int kSteps>
struct Row {
  static constexpr int kColumns = kCols;
  float value[kSteps][kVector];
  __device__ void step(int s, int, float (&to)[kVector]) const {
#pragma unroll
    for (int e = 0; e < kVector; ++e) to[e] = value[s][e];
  }
};

/// A row that is too long for registers: read again at each use.
template <int kCols, class T>
struct Stream_row {
  static constexpr int kColumns = kCols;
  const T* data;
  __device__ void step(int, int begin, float (&to)[kVector]) const { load_step<kCols>(data, begin, to); }
};

/// Sums of columns over several rows, in registers.
template <int kCols, int kSteps>
struct Columns {
  float sums[kSteps][kVector];
  float* out;
};

template <int kLanes>
class Group {
 public:
  static constexpr int kThreads = kLanes < 128 ? 128 : kLanes;
  static constexpr int kGroups = kThreads / kLanes;  // of a block
  template <int kCols>
  static constexpr int kSteps = (kCols + kLanes * kVector - 1) / (kLanes * kVector);

  __device__ int lane() const { return static_cast<int>(threadIdx.x) % kLanes; }
  __device__ int index() const { return static_cast<int>(threadIdx.x) / kLanes; }

  /// This group's rows of `n`: every gridDim.x * kGroups-th.
  __device__ RowRange rows(int n) const {
    return {static_cast<int>(blockIdx.x) * kGroups + index(), n, static_cast<int>(gridDim.x) * kGroups};
  }

  /// The rows of block `b` when `n` rows are cut into `blocks` blocks.
  __device__ static RowRange block(int b, int blocks, int n) {
    return {static_cast<int>(static_cast<long long>(n) * b / blocks), static_cast<int>(static_cast<long long>(n) * (b + 1) / blocks), 1};
  }

  __device__ bool first() const { return lane() == 0; }
  __device__ bool alone() const { return blockIdx.x == 0 && index() == 0; }

  template <int kCols, class T>
  __device__ Row<kCols, kSteps<kCols>> load(const T* row) const {
    Row<kCols, kSteps<kCols>> result;
#pragma unroll
    for (int s = 0; s < kSteps<kCols>; ++s) load_step<kCols>(row, begin(s), result.value[s]);
    return result;
  }

  template <int kCols, class T>
  __device__ Stream_row<kCols, T> stream(const T* row) const {
    return {row};
  }

  template <class F, class First, class... Others>
  __device__ float sum(F f, const First& row, const Others&... others) const {
    constexpr int kCols = First::kColumns;
    float total = 0.0f;
    each_element<kCols>([&](int, auto... v) { total += f(v...); }, row, others...);
    return reduce(total, [](float a, float b) { return a + b; });
  }

  template <class F, class First>
  __device__ float max(F f, const First& row) const {
    float largest = -3.4e38f;
    each_element<First::kColumns>([&](int, float v) { largest = fmaxf(largest, f(v)); }, row);
    return reduce(largest, [](float a, float b) { return fmaxf(a, b); });
  }

  template <class Out, class F, class First, class... Others>
  __device__ void store(Out* out, F f, const First& row, const Others&... others) const {
    constexpr int kCols = First::kColumns;
#pragma unroll 4
    for (int s = 0; s < kSteps<kCols>; ++s) {
      if (begin(s) >= kCols) break;
      float result[kVector];
      compute<1>(s, [&](int e, auto... v) { result[e] = f(v...); }, row, others...);
      store_step<kCols>(out, begin(s), result);
    }
  }

  template <class Out, class F, class First, class... Others>
  __device__ void store2(Out* a, Out* b, F f, const First& row, const Others&... others) const {
    constexpr int kCols = First::kColumns;
#pragma unroll 4
    for (int s = 0; s < kSteps<kCols>; ++s) {
      if (begin(s) >= kCols) break;
      float first[kVector], second[kVector];
      compute<1>(s, [&](int e, auto... v) { const Two two = f(v...); first[e] = two.a, second[e] = two.b; }, row, others...);
      store_step<kCols>(a, begin(s), first);
      store_step<kCols>(b, begin(s), second);
    }
  }

  template <class Out, class F, class First, class... Others>
  __device__ void store3(Out* a, Out* b, Out* c, F f, const First& row, const Others&... others) const {
    constexpr int kCols = First::kColumns;
#pragma unroll 4
    for (int s = 0; s < kSteps<kCols>; ++s) {
      if (begin(s) >= kCols) break;
      float first[kVector], second[kVector], third[kVector];
      compute<1>(s, [&](int e, auto... v) { const Three t = f(v...); first[e] = t.a, second[e] = t.b, third[e] = t.c; }, row, others...);
      store_step<kCols>(a, begin(s), first);
      store_step<kCols>(b, begin(s), second);
      store_step<kCols>(c, begin(s), third);
    }
  }

  template <int kCols, int kPitch, class Out>
  __device__ void zero_padding(Out* out) const {
    for (int i = kCols + lane(); i < kPitch; i += kLanes) out[i] = from_float<Out>(0.0f);
  }

  template <int kCols>
  __device__ Columns<kCols, kSteps<kCols>> columns(float* out) const {
    Columns<kCols, kSteps<kCols>> columns = {};
    columns.out = out;
    return columns;
  }

  template <class F, int kCols, int kCount, class... Rows>
  __device__ void accumulate(Columns<kCols, kCount>& columns, F f, const Rows&... rows) const {
#pragma unroll
    for (int s = 0; s < kCount; ++s) compute<1>(s, [&](int e, auto... v) { columns.sums[s][e] += f(v...); }, rows...);
  }

  template <int kCols, int kCount>
  __device__ void finish(Columns<kCols, kCount>& columns) const {
#pragma unroll
    for (int s = 0; s < kCount; ++s)
      if (begin(s) < kCols) store_step<kCols>(columns.out, begin(s), columns.sums[s]);
  }

  template <class F>
  __device__ void each(int n, F f) const {
    for (int i = static_cast<int>(blockIdx.x * kThreads + threadIdx.x); i < n; i += static_cast<int>(gridDim.x) * kThreads) f(i);
  }

  template <class F>
  __device__ float sum_to(int n, F f) const {
    float total = 0.0f;
    for (int i = lane(); i < n; i += kLanes) total += f(i);
    return reduce(total, [](float a, float b) { return a + b; });
  }

  template <class F>
  __device__ Two sum2_to(int n, F f) const {
    Two total = {0.0f, 0.0f};
    for (int i = lane(); i < n; i += kLanes) {
      const Two value = f(i);
      total.a += value.a;
      total.b += value.b;
    }
    return reduce(total, [](Two x, Two y) { return Two{x.a + y.a, x.b + y.b}; });
  }

  template <class F>
  __device__ void each_of(int n, F f) const {
    for (int i = lane(); i < n; i += kLanes) f(i);
  }

  __device__ void sync() const {
    __threadfence();
    barrier();
  }

  template <class F>
  __device__ double sum_of(int n, F f) const {
    double total = 0;
    for (int i = lane(); i < n; i += kLanes) total += f(i);
    return reduce(total, [](double a, double b) { return a + b; });
  }

 private:
  __device__ int begin(int s) const { return (s * kLanes + lane()) * kVector; }

  /// Calls f(e, elements e of step s) for e < 8.
  template <int, class F, class... Rows>
  __device__ void compute(int s, F f, const Rows&... rows) const {
    combine(s, f, Values{}, rows...);
  }

  struct Values {};

  template <class F, class First>
  __device__ void combine(int s, F f, Values, const First& a) const {
    float x[kVector];
    a.step(s, begin(s), x);
#pragma unroll
    for (int e = 0; e < kVector; ++e) f(e, x[e]);
  }
  template <class F, class First, class Second>
  __device__ void combine(int s, F f, Values, const First& a, const Second& b) const {
    float x[kVector], y[kVector];
    a.step(s, begin(s), x);
    b.step(s, begin(s), y);
#pragma unroll
    for (int e = 0; e < kVector; ++e) f(e, x[e], y[e]);
  }
  template <class F, class First, class Second, class Third>
  __device__ void combine(int s, F f, Values, const First& a, const Second& b, const Third& c) const {
    float x[kVector], y[kVector], z[kVector];
    a.step(s, begin(s), x);
    b.step(s, begin(s), y);
    c.step(s, begin(s), z);
#pragma unroll
    for (int e = 0; e < kVector; ++e) f(e, x[e], y[e], z[e]);
  }
  template <class F, class First, class Second, class Third, class Fourth>
  __device__ void combine(int s, F f, Values, const First& a, const Second& b, const Third& c, const Fourth& d) const {
    float x[kVector], y[kVector], z[kVector], w[kVector];
    a.step(s, begin(s), x);
    b.step(s, begin(s), y);
    c.step(s, begin(s), z);
    d.step(s, begin(s), w);
#pragma unroll
    for (int e = 0; e < kVector; ++e) f(e, x[e], y[e], z[e], w[e]);
  }

  template <int kCols, class F, class... Rows>
  __device__ void each_element(F f, const Rows&... rows) const {
#pragma unroll 4
    for (int s = 0; s < kSteps<kCols>; ++s)
      compute<1>(s, [&](int e, auto... v) { if (begin(s) + e < kCols) f(e, v...); }, rows...);
  }

  /// Combines one value of each lane; every lane gets the result.
  template <class V, class Combine>
  __device__ V reduce(V value, Combine combine) const {
    constexpr int kWarp = kLanes < 32 ? kLanes : 32;
#pragma unroll
    for (int offset = kWarp / 2; offset > 0; offset /= 2) value = combine(value, other_lane(value, offset));
    if constexpr (kLanes > 32) {
      constexpr int kWarps = kLanes / 32;
      __shared__ V scratch[kGroups][kWarps];
      barrier();
      if (lane() % 32 == 0) scratch[index()][lane() / 32] = value;
      barrier();
      value = scratch[index()][0];
#pragma unroll
      for (int w = 1; w < kWarps; ++w) value = combine(value, scratch[index()][w]);
    }
    return value;
  }

  template <class V>
  __device__ static V other_lane(V value, int offset) {
    return __shfl_xor_sync(0xffffffffu, value, offset);
  }
  __device__ static Two other_lane(Two value, int offset) {
    return {__shfl_xor_sync(0xffffffffu, value.a, offset), __shfl_xor_sync(0xffffffffu, value.b, offset)};
  }

  /// Waits for the group's lanes only: groups of a block may have different numbers of rows.
  __device__ void barrier() const { asm volatile("bar.sync %0, %1;" ::"r"(index() + 1), "n"(kLanes) : "memory"); }
};

}  // namespace llmc
