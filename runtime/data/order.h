// The order in which samples are visited: a pure function of (seed, samples consumed), with no state to save.
#pragma once

#include <cstdint>

namespace llmc {

/// Image of `index` under a permutation of [0, n) that is keyed by (seed, epoch): a balanced Feistel network over the
/// smallest even number of bits that holds n, walked along its cycle until it is back inside [0, n) (Black and Rogaway,
/// 2002). Integer arithmetic only, so every machine and standard library gives the same order.
std::uint64_t permute(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);

/// The index whose image is `image`.
std::uint64_t unpermute(std::uint64_t image, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch);

/// Each epoch visits every one of `n` samples once, in an order of its own.
class SampleOrder {
 public:
  /// n in [1, 2^62].
  SampleOrder(std::uint64_t n, std::uint64_t seed) : n_(n), seed_(seed) {}
  /// Sample visited after `consumed` others: consumed / n is the epoch, consumed % n the place in it.
  std::uint64_t at(std::uint64_t consumed) const { return permute(consumed % n_, n_, seed_, consumed / n_); }
  /// The place of a sample in an epoch.
  std::uint64_t place(std::uint64_t epoch, std::uint64_t sample) const { return unpermute(sample, n_, seed_, epoch); }

 private:
  std::uint64_t n_, seed_;
};

}  // namespace llmc
