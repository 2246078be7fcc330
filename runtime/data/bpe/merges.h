// Merges of byte-pair encoding, applied to the symbols of a word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace llmc {

/// Pairs of tokens that are merged, by rank (Sennrich et al. 2016, https://arxiv.org/abs/1508.07909).
class MergeTable {
 public:
  explicit MergeTable(std::size_t pairs);
  /// Adds a pair, or replaces its rank.
  void set(std::int32_t left, std::int32_t right, std::int32_t rank, std::int32_t merged);

  /// A word's state, kept to reuse its memory.
  struct Scratch {
    struct Symbol {
      std::int32_t id, previous, next;  // neighbours by index; -1: none
    };
    struct Candidate {
      std::int32_t rank, at, merged;
    };
    std::vector<Symbol> symbols;
    std::vector<Candidate> queue;
  };

  /// Merges the pair of the lowest rank, of equal ranks the leftmost, until none is left. A heap finds it, so that a
  /// word of n symbols takes O(n log n). Like the package `tokenizers`, a candidate stays valid if its symbols changed
  /// but still merge into the same token.
  void apply(std::vector<std::int32_t>& symbols, Scratch& scratch) const;

 private:
  struct Merge {
    std::uint64_t key;
    std::int32_t rank, merged;
  };
  const Merge* find(std::int32_t left, std::int32_t right) const;
  std::size_t slot(std::uint64_t key) const;

  std::vector<Merge> slots_;  // open addressing, at most half full
};

}  // namespace llmc
