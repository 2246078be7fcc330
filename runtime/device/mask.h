// Attention's mask: which keys a query sees. One place for kernels, plans, cuDNN and `llmc verify`.
//
// A mask is two functions, both of which rise: lo(query), the first key that a query sees, and hi(key), the last query
// that sees a key. A query sees the keys lo(query) to itself. Kernels ask for tiles by them alone, so that a mask that
// reads both from rows of int32 can take this one's place.
#pragma once

#include "device/types.h"

/// Of attention without a window. An instance with one has a param of this name in namespace llmc, which hides it.
constexpr int kWindow = 0;

namespace llmc {

/// Causal; with a window, a query sees the `window` keys that end with its own.
struct Mask {
  int sequence = 0, window = 0;  // window 0: all keys up to the query's own

  LLMC_HD constexpr int lo(int query) const { return window == 0 || query < window ? 0 : query - window + 1; }
  LLMC_HD constexpr int hi(int key) const {
    return window == 0 || key + window > sequence ? sequence - 1 : key + window - 1;
  }
  /// Where the first of the tiles of `size` keys begins that queries from `query` on see.
  LLMC_HD constexpr int first_tile(int query, int size) const { return lo(query) / size * size; }

  /// How many scores a head of a sequence has, those of a query and its own key as half: causal half of the square.
  constexpr double scores() const {
    const double t = sequence, w = window == 0 ? sequence : window;
    return w * t - w * (w - 1) / 2 - t / 2;
  }
};

}  // namespace llmc
