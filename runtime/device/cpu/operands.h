// Operands of row functions on the CPU: rows, runs and columns, what a function gets of each for one element, and
// the blocks in which a row is computed.
#pragma once

#include "device/arguments.h"
#include "device/cpu/column_memory.h"
#include "device/cpu/vector.h"
#include "device/math.h"
#include "device/split.h"
#include "device/types.h"

#define LLMC_ALWAYS __attribute__((always_inline))

namespace llmc {

/// Partial sums of a reduction: column c is added to number c % kPartials on every instruction set.
constexpr int kPartials = 64;

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
struct Columns : RowArgument, ColumnMemory<T, kSegmentCount * kColumns> {
  static constexpr int kSegments = kSegmentCount;
  static constexpr bool kPartial = false, kInMemory = false;

  static constexpr int cols() { return kColumns; }
  T* segment(int s) { return this->data + s * kColumns; }
  const T* segment(int s) const { return this->data + s * kColumns; }
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

}  // namespace llmc
