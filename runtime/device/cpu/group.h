// Group on the CPU: one lane. A row is the memory itself, a row operation is a vector loop over it, and rows are
// divided among OpenMP threads in contiguous ranges.
#pragma once

#include "device/arguments.h"
#include "device/cpu/soft_cap.h"
#include "device/cpu/vector.h"
#include "device/math.h"
#include "device/split.h"
#include "device/types.h"

#define LLMC_KERNEL void
#define LLMC_BOUNDS(lanes)
#define LLMC_BOUNDS_RESIDENT(lanes, resident)
#define LLMC_ALWAYS __attribute__((always_inline))

extern "C" int omp_get_thread_num() noexcept;
extern "C" int omp_get_num_threads() noexcept;

namespace llmc {

/// Partial sums of a reduction: column c is added to number c % kPartials on every instruction set.
constexpr int kPartials = 64;

/// Prefetch distance of a row operation in bytes. Hardware prefetching stops at the end of a 4 KiB page and starts
/// again in the next one.
constexpr int kAhead = 6144;

/// Bytes of a matrix above which little of it is still in the caches of a few cores after it was written.
constexpr long long kStreamed = 4 << 20;

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

/// kSegments times kCols elements, with kStep elements between segment starts. A single segment is followed by padding
/// up to kPitch.
template <class T, int kColumns, int kPitch, int kSegmentCount, int kStep>
struct Row : RowArgument {
  static constexpr int kSegments = kSegmentCount;
  static constexpr bool kPartial = false, kInMemory = true;
  T* data;

  static constexpr int cols() { return kColumns; }
  T* segment(int s) const { return data + s * kStep; }
  void pad() const {
    if constexpr (!kReadOnly<T>)
      for (int c = kColumns; c < kPitch; ++c) data[c] = from_float<T>(0.0f);
  }
};

struct StreamedPointer {
  float* at;
  float& operator[](int i) const { return at[i]; }
};

/// An fp32 row written with streaming stores, never read. Its address is a multiple of 64.
template <int kColumns, int kPitch>
struct StreamedRow : RowArgument {
  static constexpr int kSegments = 1;
  static constexpr bool kPartial = false, kInMemory = false;
  float* data;

  static constexpr int cols() { return kColumns; }
  StreamedPointer segment(int) const { return {data}; }
  void pad() const {
    for (int c = kColumns; c < kPitch; ++c) data[c] = 0.0f;
  }
};

/// A number of elements known at run time.
template <class T>
struct Run : RowArgument {
  static constexpr int kSegments = 1;
  static constexpr bool kPartial = false, kInMemory = true;
  T* data;
  int count;

  int cols() const { return count; }
  T* segment(int) const { return data; }
  void pad() const {}
  Run<const T> read_only() const { return {{}, data, count}; }
};

/// Split masters (device/split.h), and one of them.
template <class Copy, class Rest, class Ties>
struct SplitPointer {
  Copy* copy;
  Rest* rest;
  Ties* ties;

  struct Place {
    const SplitPointer& of;
    int i;
    float read() const { return joined(of.copy[i].bits, of.rest[i].bits, of.ties[i / 8].bits >> i % 8 & 1u); }
    void write(float v) const {
      const SplitNumber parts = llmc::split(v);
      of.copy[i] = parts.copy;
      of.rest[i] = parts.rest;
      const unsigned others = of.ties[i / 8].bits & ~(1u << i % 8);
      of.ties[i / 8].bits = static_cast<unsigned char>(others | parts.up << i % 8);
    }
  };
  Place operator[](int i) const { return {*this, i}; }
};

/// A number of split masters known at run time, from a multiple of eight on.
template <class Copy, class Rest, class Ties>
struct SplitRun : RowArgument {
  static constexpr int kSegments = 1;
  static constexpr bool kPartial = false, kInMemory = true;
  SplitPointer<Copy, Rest, Ties> data;
  int count;

  int cols() const { return count; }
  SplitPointer<Copy, Rest, Ties> segment(int) const { return data; }
  void pad() const {}
};

/// One number per column.
template <int kColumns, class T = float, int kSegmentCount = 1>
struct Columns : RowArgument {
  static constexpr int kSegments = kSegmentCount;
  static constexpr bool kPartial = false, kInMemory = false;
  alignas(64) T data[kSegments * kColumns];

  static constexpr int cols() { return kColumns; }
  T* segment(int s) { return data + s * kColumns; }
  const T* segment(int s) const { return data + s * kColumns; }
  void pad() const {}
};

/// Same, to be read.
template <int kColumns, class T, int kSegmentCount>
struct ReadColumns : RowArgument {
  static constexpr int kSegments = kSegmentCount;
  static constexpr bool kPartial = false, kInMemory = false;  // not prefetched
  const T* data;

  static constexpr int cols() { return kColumns; }
  const T* segment(int s) const { return data + s * kColumns; }
  void pad() const {}
};

/// e^(v - highest) of each element of a row, their sum, and the sum of their products with v - highest.
template <int kColumns>
struct Powers : Columns<kColumns> {
  float highest, total, weighted;
};

/// Partial results of a reduction.
template <class T>
struct Sums : RowArgument {
  static constexpr bool kPartial = true, kInMemory = false;
  alignas(64) T data[kPartials] = {};

  T* segment(int) { return data; }
  void pad() const {}
};

/// Column index.
struct Indices : RowArgument {
  static constexpr bool kPartial = false, kInMemory = false;
  int operator[](int column) const { return column; }
  Indices segment(int) const { return {}; }
  void pad() const {}
};

/// One element during the function: loaded first, stored at the end unless it is const.
template <class T>
struct Element {
  T& place;
  float value;
  LLMC_ALWAYS explicit Element(T& from) : place(from), value(to_float(from)) {}
  LLMC_ALWAYS ~Element() {
    if constexpr (!kReadOnly<T>) place = from_float<T>(value);
  }
  LLMC_ALWAYS float& get() { return value; }
};
template <>
struct Element<double> {
  double& place;
  LLMC_ALWAYS explicit Element(double& from) : place(from) {}
  LLMC_ALWAYS double& get() { return place; }
};
template <>
struct Element<int> {
  int column;
  LLMC_ALWAYS explicit Element(int c) : column(c) {}
  LLMC_ALWAYS int get() const { return column; }
};
/// One element of a block of results: loaded from the row, stored to the block.
template <class T>
struct Rounded {
  T& place;
  float& result;
};
template <class T>
struct Element<Rounded<T>> {
  float& result;
  float value;
  LLMC_ALWAYS explicit Element(Rounded<T> from) : result(from.result), value(to_float(from.place)) {}
  LLMC_ALWAYS ~Element() { result = value; }
  LLMC_ALWAYS float& get() { return value; }
};
/// One element of a write-only block of results.
struct Unread {
  float& result;
};
template <>
struct Element<Unread> {
  float& result;
  float value = 0.0f;
  LLMC_ALWAYS explicit Element(Unread place) : result(place.result) {}
  LLMC_ALWAYS ~Element() { result = value; }
  LLMC_ALWAYS float& get() { return value; }
};
template <class Place>
struct SplitElement {
  Place place;
  float value;
  LLMC_ALWAYS explicit SplitElement(Place from) : place(from), value(from.read()) {}
  LLMC_ALWAYS float& get() { return value; }
};
template <>
struct Element<SplitPointer<bf16, rest16, ties8>::Place> : SplitElement<SplitPointer<bf16, rest16, ties8>::Place> {
  using SplitElement::SplitElement;
  LLMC_ALWAYS ~Element() { place.write(value); }
};
template <>
struct Element<SplitPointer<const bf16, const rest16, const ties8>::Place>
    : SplitElement<SplitPointer<const bf16, const rest16, const ties8>::Place> {
  using SplitElement::SplitElement;
};
template <class T>
Element(T&) -> Element<T>;
template <class T>
Element(Rounded<T>) -> Element<Rounded<T>>;
Element(Unread) -> Element<Unread>;
Element(int) -> Element<int>;
Element(SplitPointer<bf16, rest16, ties8>::Place) -> Element<SplitPointer<bf16, rest16, ties8>::Place>;
Element(SplitPointer<const bf16, const rest16, const ties8>::Place)
    -> Element<SplitPointer<const bf16, const rest16, const ties8>::Place>;

template <class T>
struct PairElement {
  Element<T> first, second;
  LLMC_ALWAYS explicit PairElement(T* at) : first(at[0]), second(at[1]) {}
};

/// A block of a row. Results for a bf16 row are rounded by vectors after the block is computed: the CPU has an
/// instruction for that, which g++ does not use in a loop over elements.
template <class P>
struct Block {
  P at;
  LLMC_ALWAYS Block(P pointer, int first) : at(pointer + first) {}
  LLMC_ALWAYS auto& operator[](int i) const { return at[i]; }
};
template <>
struct Block<bf16*> {
  bf16* at;
  alignas(64) mutable float results[kPartials];
  LLMC_ALWAYS Block(bf16* pointer, int first) : at(pointer + first) {}
  LLMC_ALWAYS Rounded<bf16> operator[](int i) const { return {at[i], results[i]}; }
  LLMC_ALWAYS ~Block() {
    for (int i = 0; i < kPartials; i += kVectorLanes) llmc::store(at + i, llmc::load(results + i));
  }
};
template <>
struct Block<StreamedPointer> {
  float* at;
  alignas(64) mutable float results[kPartials];
  LLMC_ALWAYS Block(StreamedPointer pointer, int first) : at(pointer.at + first) {}
  LLMC_ALWAYS Unread operator[](int i) const { return {results[i]}; }
  LLMC_ALWAYS ~Block() {
    for (int i = 0; i < kPartials; i += kVectorLanes) stream(at + i, llmc::load(results + i));
  }
};
/// Joined before the block is computed, and split after it. Ties that were rounded up are one in 131,072, so that their
/// bits have loops of their own.
template <class Copy, class Rest, class Ties>
struct Block<SplitPointer<Copy, Rest, Ties>> {
  Copy* copy;
  Rest* rest;
  Ties* ties;
  alignas(64) mutable float numbers[kPartials];
  LLMC_ALWAYS Block(SplitPointer<Copy, Rest, Ties> from, int first)
      : copy(from.copy + first), rest(from.rest + first), ties(from.ties + first / 8) {
    static_assert(kPartials == 64, "the bits of a word");
    unsigned long long up;
    __builtin_memcpy(&up, ties, sizeof(up));
#pragma omp simd
    for (int i = 0; i < kPartials; ++i) numbers[i] = joined(copy[i].bits, rest[i].bits, 0);
    for (; up != 0; up &= up - 1) {
      const int i = __builtin_ctzll(up);
      numbers[i] = joined(copy[i].bits, rest[i].bits, 1);
    }
  }
  LLMC_ALWAYS float& operator[](int i) const { return numbers[i]; }
  LLMC_ALWAYS ~Block() {
    if constexpr (!kReadOnly<Copy>) {
      unsigned any = 0;
#pragma omp simd reduction(| : any)
      for (int i = 0; i < kPartials; ++i) {
        const SplitNumber parts = llmc::split(numbers[i]);
        copy[i] = parts.copy;
        rest[i] = parts.rest;
        any |= parts.up;
      }
      unsigned long long up = 0;
      for (int i = 0; any && i < kPartials; ++i) up |= static_cast<unsigned long long>(llmc::split(numbers[i]).up) << i;
      __builtin_memcpy(ties, &up, sizeof(up));
    }
  }
};
template <>
struct Block<Indices> {
  int first;
  LLMC_ALWAYS Block(Indices, int from) : first(from) {}
  LLMC_ALWAYS int operator[](int i) const { return first + i; }
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
    for (T& v : zeros.data) v = from_float<T>(0.0f);
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
