// Attention's mask: the keys that a query sees. Shared by kernels, plans, cuDNN and `llmc verify`.
//
// A mask is two non-decreasing functions: lo(query), the first key that a query sees, and hi(key), the last query that
// sees a key. A query sees the keys from lo(query) to itself. Kernels use these two functions only.
#pragma once

#include "device/types.h"

// The mask of sequence `batch` in an attention kernel, an initialiser of Mask; a run's params define it.
#ifndef LLMC_MASK
#define LLMC_MASK {kSequence, 0}
#endif

namespace llmc {

/// Causal. With a window, a query sees the `window` keys that end with its own; with documents, only those of its own
/// document.
struct Mask {
  int sequence = 0, window = 0;  // window 0: all keys up to the query's own
  // [sequence]: the first and the last token of each token's document; null: one document
  const int *begin = nullptr, *end = nullptr;

  LLMC_HD constexpr int lo(int query) const {
    const int seen = window == 0 || query < window ? 0 : query - window + 1;
    return begin && row(begin, query) > seen ? row(begin, query) : seen;
  }
  LLMC_HD constexpr int hi(int key) const {
    const int seen = window == 0 || key + window > sequence ? sequence - 1 : key + window - 1;
    return end && row(end, key) < seen ? row(end, key) : seen;
  }
  /// The query after the last one that sees a key; none if queries up to the end of the sequence do.
  LLMC_HD constexpr int past(int key) const { return hi(key) + 1 < sequence ? hi(key) + 1 : 1 << 30; }
  /// The same of sequence `batch`, whose tokens have documents: begins and ends [sequences, sequence].
  LLMC_HD constexpr Mask with_documents(const int* begins, const int* ends, int batch) const {
    const long long row = static_cast<long long>(batch) * sequence;
    return {sequence, window, begins + row, ends + row};
  }
  /// First key of the first tile of `size` keys that queries from `query` on see.
  LLMC_HD constexpr int first_tile(int query, int size) const { return lo(query) / size * size; }

  /// Scores of one head of a sequence, as one document; a query with its own key counts half, so that causal is half of
  /// the square.
  constexpr double scores() const {
    const double t = sequence, w = window == 0 ? sequence : window;
    return w * t - w * (w - 1) / 2 - t / 2;
  }

 private:
  /// Of the last token for rows past the sequence, which padded tiles have.
  LLMC_HD constexpr int row(const int* of, int token) const { return of[token < sequence ? token : sequence - 1]; }
};

}  // namespace llmc
