// A lane's reads and writes of a row's vectors on a GPU: 16-byte accesses if the row's alignment allows them.
#pragma once

#include "device/activation.h"
#include "device/arguments.h"
#include "device/cuda/ptx.h"
#include "device/defaults.h"
#include "device/dynamic_map.h"
#include "device/fp8.h"
#include "device/mask.h"
#include "device/math.h"
#include "device/soft_cap.h"
#include "device/split.h"
#include "device/types.h"

namespace llmc {

template <class T>
struct Bare {
  using Type = T;
};
template <class T>
struct Bare<const T> {
  using Type = T;
};
template <class T>
struct Bare<T&> {
  using Type = typename Bare<T>::Type;
};
template <class T>
using ShapeOf = typename Bare<T>::Type;

/// 32-bit words in kVector elements of T.
template <class T, int kVector>
constexpr int kWords = kVector * sizeof(T) / 4;

template <int kCount>
__device__ __forceinline__ void read_aligned(const void* from, unsigned (&words)[kCount]) {
  if constexpr (kCount == 1) {
    words[0] = *static_cast<const unsigned*>(from);
  } else if constexpr (kCount == 2) {
    const uint2 v = *static_cast<const uint2*>(from);
    words[0] = v.x, words[1] = v.y;
  } else {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i) {
      const uint4 v = static_cast<const uint4*>(from)[i];
      words[4 * i] = v.x, words[4 * i + 1] = v.y, words[4 * i + 2] = v.z, words[4 * i + 3] = v.w;
    }
  }
}

template <int kCount>
__device__ __forceinline__ void write_aligned(void* to, const unsigned (&words)[kCount]) {
  if constexpr (kCount == 1) {
    *static_cast<unsigned*>(to) = words[0];
  } else if constexpr (kCount == 2) {
    *static_cast<uint2*>(to) = make_uint2(words[0], words[1]);
  } else {
#pragma unroll
    for (int i = 0; i < kCount / 4; ++i)
      static_cast<uint4*>(to)[i] = make_uint4(words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  }
}

template <class T>
constexpr bool is_fp16 = false;
template <>
inline constexpr bool is_fp16<fp16> = true;

/// Two numbers of 16 bits in a word, `low` in the lower half.
template <class T>
__device__ __forceinline__ unsigned rounded_pair(float low, float high) {
  if constexpr (is_fp16<T>)
    return f16_pair(low, high);
  else
    return bf16_pair(low, high);
}

template <class T, int kVector>
__device__ __forceinline__ void unpack(const unsigned (&words)[kWords<T, kVector>], float (&value)[kVector]) {
#pragma unroll
  for (int e = 0; e < kVector; ++e) {
    if constexpr (sizeof(T) == 4) {
      value[e] = __uint_as_float(words[e]);
    } else if constexpr (sizeof(T) == 1) {
      value[e] = to_float(T{static_cast<unsigned char>(words[e / 4] >> 8 * (e % 4))});
    } else if constexpr (is_fp16<T>) {
      value[e] = to_float(fp16{static_cast<unsigned short>(words[e / 2] >> e % 2 * 16)});
    } else {
      value[e] = __uint_as_float(e % 2 ? words[e / 2] & 0xffff0000u : words[e / 2] << 16);
    }
  }
}

/// Two codes in 16 bits, `low` in the lower half. For sm_89 and later.
template <class Code>
__device__ unsigned short code_pair(float low, float high);
template <>
__device__ __forceinline__ unsigned short code_pair<e4m3>(float low, float high) {
  return e4m3_pair(low, high);
}
template <>
__device__ __forceinline__ unsigned short code_pair<e5m2>(float low, float high) {
  return e5m2_pair(low, high);
}

/// Four codes in a word, `a` in its lowest byte.
template <class Code>
__device__ __forceinline__ unsigned four_codes(float a, float b, float c, float d) {
  return code_pair<Code>(a, b) | static_cast<unsigned>(code_pair<Code>(c, d)) << 16;
}

template <class T, int kVector>
__device__ __forceinline__ void pack(const float (&value)[kVector], unsigned (&words)[kWords<T, kVector>]) {
  if constexpr (sizeof(T) == 4) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) words[e] = __float_as_uint(value[e]);
  } else if constexpr (sizeof(T) == 1 && !is_code<T>) {
#pragma unroll
    for (int i = 0; i < kVector / 4; ++i) words[i] = 0;
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      words[e / 4] |= static_cast<unsigned>(from_float<T>(value[e]).bits) << 8 * (e % 4);
  } else if constexpr (sizeof(T) == 1) {
#pragma unroll
    for (int i = 0; i < kVector / 4; ++i)
      words[i] = four_codes<T>(value[4 * i], value[4 * i + 1], value[4 * i + 2], value[4 * i + 3]);
  } else {
#pragma unroll
    for (int i = 0; i < kVector / 2; ++i) words[i] = rounded_pair<T>(value[2 * i], value[2 * i + 1]);
  }
}

/// kSegmentCount times kColumns elements, with kStep elements between segment starts. A single segment is followed by
/// padding up to kPitch. kAligned: every vector is aligned to 16 bytes and lies in one segment.
template <class T, int kColumns, int kPitch, int kSegmentCount, int kStep, bool kAligned>
struct Row : RowArgument {
  using Stored = typename Bare<T>::Type;
  using Value = float;
  static constexpr int kTotal = kColumns * kSegmentCount, kMost = kTotal;
  static constexpr int kPadded = kSegmentCount == 1 ? kPitch : kTotal;
  static constexpr bool kPartial = false, kRegisters = false, kWritten = !kReadOnly<T>;
  T* data;

  /// End of the last vector if it is written whole.
  template <int kVector>
  static constexpr int kEnd = (kTotal + kVector - 1) / kVector * kVector;
  template <int kVector>
  static constexpr int kPaddedFrom = kAligned && kEnd<kVector> <= kPadded ? kEnd<kVector> : kTotal;
  /// Returns whether all vectors are read and written whole.
  template <int kVector>
  static constexpr bool kAlwaysWhole = kAligned && kEnd<kVector> <= kPadded;
  __device__ static constexpr int total() { return kTotal; }
  __device__ Row<const T, kColumns, kPitch, kSegmentCount, kStep, kAligned> read_only() const { return {{}, data}; }
  __device__ T* place(int column) const {
    if constexpr (kSegmentCount == 1)
      return data + column;
    else
      return data + column / kColumns * kStep + column % kColumns;
  }

  template <int kVector>
  __device__ __forceinline__ void read(int, int column, float (&value)[kVector]) const {
    unsigned words[kWords<Stored, kVector>];
    read_words(column, words);
    unpack<Stored>(words, value);
  }

  template <int kCount>
  __device__ __forceinline__ void read_words(int column, unsigned (&words)[kCount]) const {
    constexpr int kVector = kCount * 4 / sizeof(Stored);
    if (whole<kVector>(column)) return read_aligned(place(column), words);
    if constexpr (!kAlwaysWhole<kVector>) {
      float value[kVector];
#pragma unroll
      for (int e = 0; e < kVector; ++e) value[e] = column + e < kTotal ? to_float(*place(column + e)) : 0.0f;
      pack<Stored>(value, words);
    }
  }

  template <int kVector>
  __device__ __forceinline__ void write(int, int column, float (&value)[kVector]) const {
    if (whole<kVector>(column)) {
      if constexpr (kTotal % kVector != 0) {
#pragma unroll
        for (int e = 0; e < kVector; ++e) value[e] = column + e < kTotal ? value[e] : 0.0f;
      }
      unsigned words[kWords<Stored, kVector>];
      pack<Stored>(value, words);
      return write_aligned(place(column), words);
    }
    if constexpr (!kAlwaysWhole<kVector>) {
#pragma unroll
      for (int e = 0; e < kVector; ++e)
        if (column + e < kTotal) *place(column + e) = from_float<Stored>(value[e]);
    }
  }

 private:
  template <int kVector>
  __device__ static bool whole(int column) {
    return kAlwaysWhole<kVector> || (kAligned && column + kVector <= kPadded);
  }
};

/// A number of elements known at run time. kAligned: the first one is aligned to 16 bytes.
template <class T, int kAtMost, bool kAligned>
struct Run : RowArgument {
  using Stored = typename Bare<T>::Type;
  using Value = float;
  static constexpr int kTotal = 0, kMost = kAtMost, kPadded = 0;
  static constexpr bool kPartial = false, kRegisters = false, kWritten = !kReadOnly<T>;
  T* data;
  int count;
  __device__ int total() const { return count; }
  __device__ Run<const T, kAtMost, kAligned> read_only() const { return {{}, data, count}; }

  template <int kVector>
  __device__ __forceinline__ void read(int, int column, float (&value)[kVector]) const {
    if (kAligned && column + kVector <= count) {
      unsigned words[kWords<Stored, kVector>];
      read_aligned(data + column, words);
      return unpack<Stored>(words, value);
    }
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] = column + e < count ? to_float(data[column + e]) : 0.0f;
  }

  template <int kVector>
  __device__ __forceinline__ void write(int, int column, const float (&value)[kVector]) const {
    if (kAligned && column + kVector <= count) {
      unsigned words[kWords<Stored, kVector>];
      pack<Stored>(value, words);
      return write_aligned(data + column, words);
    }
#pragma unroll
    for (int e = 0; e < kVector; ++e)
      if (column + e < count) data[column + e] = from_float<Stored>(value[e]);
  }
};

/// Split masters (device/split.h): a number of elements known at run time, at a multiple of eight from the beginning of
/// each buffer. Vectors are read and written whole, so that those of the last one have memory too.
template <class Copy, class Rest, class Ties, int kAtMost>
struct SplitRun : RowArgument {
  using Stored = float;
  using Value = float;
  static constexpr int kTotal = 0, kMost = kAtMost, kPadded = 0;
  static constexpr bool kPartial = false, kRegisters = false, kWritten = !kReadOnly<Copy>;
  Copy* copy;
  Rest* rest;
  Ties* ties;
  int count;
  __device__ int total() const { return count; }

  template <int kVector>
  __device__ __forceinline__ void read(int, int column, float (&value)[kVector]) const {
    static_assert(kVector == 8, "a byte of ties");
    unsigned copies[4], rests[4];
    read_aligned(copy + column, copies);
    read_aligned(rest + column, rests);
    const unsigned up = ties[column / 8].bits;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      const int shift = e % 2 * 16;
      value[e] = joined(copies[e / 2] >> shift & 0xffffu, rests[e / 2] >> shift & 0xffffu, up >> e & 1u);
    }
  }

  template <int kVector>
  __device__ __forceinline__ void write(int, int column, const float (&value)[kVector]) const {
    unsigned copies[4], rests[4], up = 0;
    pack<bf16>(value, copies);
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const SplitNumber low = split(value[2 * i]), high = split(value[2 * i + 1]);
      rests[i] = low.rest.bits | static_cast<unsigned>(high.rest.bits) << 16;
      up |= low.up << 2 * i | high.up << (2 * i + 1);
    }
    write_aligned(copy + column, copies);
    write_aligned(rest + column, rests);
    ties[column / 8].bits = static_cast<unsigned char>(up);
  }
};

/// A row in registers, in its storage type.
template <class T, int kVectors, int kVector, int kColumns>
struct Kept : RowArgument {
  using Value = float;
  static constexpr int kTotal = kColumns, kMost = kColumns, kPadded = 0;
  static constexpr bool kPartial = false, kRegisters = true, kWritten = false;
  unsigned words[kVectors][kWords<T, kVector>];

  __device__ static constexpr int total() { return kTotal; }
  __device__ __forceinline__ void read(int k, int, float (&value)[kVector]) const { unpack<T>(words[k], value); }
};

/// One fp32 number per column, in registers.
template <int kVectors, int kVector, int kColumns>
struct Columns : RowArgument {
  using Stored = float;
  using Value = float;
  static constexpr int kTotal = kColumns, kMost = kColumns, kPadded = 0;
  static constexpr bool kPartial = false, kRegisters = true, kWritten = true;
  float value[kVectors][kVector] = {};

  __device__ static constexpr int total() { return kTotal; }
  __device__ __forceinline__ void read(int k, int, float (&to)[kVector]) const {
#pragma unroll
    for (int e = 0; e < kVector; ++e) to[e] = value[k][e];
  }
  __device__ __forceinline__ void write(int k, int, const float (&from)[kVector]) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[k][e] = from[e];
  }
};

/// One number of type T per column, in registers.
template <class T, int kVectors, int kVector, int kColumns>
struct RoundedColumns : Kept<T, kVectors, kVector, kColumns> {
  using Stored = T;
  static constexpr bool kWritten = true;

  __device__ __forceinline__ void write(int k, int, const float (&from)[kVector]) { pack<T>(from, this->words[k]); }
};

/// e^(v - highest) of each element of a row, their sum, and the sum of their products with v - highest. In registers:
/// powers relative to the highest of this lane's elements, and the missing factor.
template <int kVectors, int kVector, int kColumns>
struct KeptPowers : RowArgument {
  using Value = float;
  static constexpr int kTotal = kColumns, kMost = kColumns, kPadded = 0;
  static constexpr bool kPartial = false, kRegisters = true, kWritten = false;
  Columns<kVectors, kVector, kColumns> own;
  float highest, total, weighted, factor;

  __device__ __forceinline__ void read(int k, int column, float (&value)[kVector]) const {
    own.read(k, column, value);
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] *= factor;
  }
};

/// Same for a row that is read a second time.
template <class R>
struct ReadPowers : RowArgument {
  using Value = float;
  static constexpr int kTotal = R::kTotal, kMost = R::kMost, kPadded = 0;
  static constexpr bool kPartial = false, kRegisters = false, kWritten = false;
  R row;
  float highest, total, weighted;

  template <int kVector>
  __device__ __forceinline__ void read(int k, int column, float (&value)[kVector]) const {
    row.read(k, column, value);
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] = exp(value[e] - highest);
  }
};

/// A row whose elements have a soft cap where they are read.
template <class R>
struct Capped : R {
  static constexpr bool kWritten = false;
  float cap;

  __device__ Capped(const R& row, float limit) : R(row), cap(limit) {}
  template <int kVector>
  __device__ __forceinline__ void read(int k, int column, float (&value)[kVector]) const {
    R::read(k, column, value);
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] = soft_cap(value[e], cap);
  }
};

/// Partial results of a reduction, one per element of a vector.
template <class T, int kVector>
struct Sums : RowArgument {
  using Stored = T;
  using Value = T;
  static constexpr int kPadded = 0;
  static constexpr bool kPartial = true, kRegisters = false, kWritten = true;
  T value[kVector] = {};
  __device__ __forceinline__ void read(int, int, T (&to)[kVector]) const {
#pragma unroll
    for (int e = 0; e < kVector; ++e) to[e] = value[e];
  }
  __device__ __forceinline__ void write(int, int, const T (&from)[kVector]) {
#pragma unroll
    for (int e = 0; e < kVector; ++e) value[e] = from[e];
  }
};

/// Column index.
struct Indices : RowArgument {
  using Value = int;
  static constexpr int kPadded = 0;
  static constexpr bool kPartial = true, kRegisters = false, kWritten = false;

  template <int kVector>
  __device__ __forceinline__ void read(int, int column, int (&to)[kVector]) const {
#pragma unroll
    for (int e = 0; e < kVector; ++e) to[e] = column + e;
  }
};

/// A lane's vector of one row during a function: loaded first, stored at the end if the row is writable.
template <class R, int kVector>
struct Piece {
  R& row;
  int k, column;
  typename R::Value value[kVector];
  __device__ __forceinline__ Piece(R& of, int number, int at) : row(of), k(number), column(at) {
    row.read(k, column, value);
  }
  __device__ __forceinline__ ~Piece() {
    if constexpr (R::kWritten) row.write(k, column, value);
  }
};

}  // namespace llmc
