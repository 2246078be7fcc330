// Attention's mask: the keys that a query sees. Shared by kernels, plans, cuDNN and `llmc verify`.
//
// A mask is two non-decreasing functions: lo(query), the first key that a query sees, and hi(key), the last query that
// sees a key. A query sees the keys from lo(query) to itself. Kernels use these two functions only, so that a mask read
// from rows of int32 can replace this one.
#pragma once

#include "device/types.h"

/// Without a window. An instance with one has a parameter of this name in namespace llmc, which shadows it.
constexpr int kWindow = 0;

namespace llmc {

/// Causal. With a window, a query sees the `window` keys that end with its own.
struct Mask {
  int sequence = 0, window = 0;  // window 0: all keys up to the query's own

  LLMC_HD constexpr int lo(int query) const { return window == 0 || query < window ? 0 : query - window + 1; }
  LLMC_HD constexpr int hi(int key) const {
    return window == 0 || key + window > sequence ? sequence - 1 : key + window - 1;
  }
  /// First key of the first tile of `size` keys that queries from `query` on see.
  LLMC_HD constexpr int first_tile(int query, int size) const { return lo(query) / size * size; }

  /// Scores of one head of a sequence; a query with its own key counts half, so that causal is half of the square.
  constexpr double scores() const {
    const double t = sequence, w = window == 0 ? sequence : window;
    return w * t - w * (w - 1) / 2 - t / 2;
  }
};

}  // namespace llmc
