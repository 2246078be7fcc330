// Order of samples: a pure function of (seed, samples consumed), without state to save.
#pragma once

#include <cstdint>

namespace llmc {

/// Image of `index` under a permutation of [0, n) keyed by (seed, epoch). A balanced Feistel network over the smallest
/// even number of bits that holds n, with cycle walking back into [0, n) (Black and Rogaway, 2002). Uses integer
/// arithmetic only, so the order is equal on every machine and standard library.
std::uint64_t permute(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);

/// Index whose image is `image`.
std::uint64_t unpermute(std::uint64_t image, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);

/// Visits each of `n` samples once per epoch, in a different order each epoch.
class SampleOrder {
 public:
  /// n in [1, 2^62].
  SampleOrder(std::uint64_t n, std::uint64_t seed) : n_(n), seed_(seed) {}
  /// Sample visited after `consumed` others: consumed / n is the epoch, consumed % n the position in it.
  std::uint64_t at(std::uint64_t consumed) const { return permute(consumed % n_, n_, seed_, consumed / n_); }
  /// Position of a sample within an epoch.
  std::uint64_t place(std::uint64_t epoch, std::uint64_t sample) const { return unpermute(sample, n_, seed_, epoch); }

 private:
  std::uint64_t n_, seed_;
};

}  // namespace llmc
