// Assigns each sample of a mixture to one of its sources: a pure function of the weights and the sample's number.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace llmc {

/// Order of the sources of a mixture, repeated after one period. Of the sources with c_i samples so far for which c_i <
/// w_i (n + 1), sample n comes from the one with the smallest (c_i + 1) / w_i: the earliest deadline. Then c_i is
/// always within one sample of n w_i (Tijdeman, The chairman assignment problem, 1980).
class Mixture {
 public:
  /// Longest period. Weights that have a shorter one, as 0.5, 0.2, 0.2 and 0.1 have one of 10 samples, are exact.
  /// Others are exact for this number of samples, and then repeat them.
  static constexpr std::uint64_t kLongestPeriod = 1 << 20;

  /// `weights`: positive and finite, at most 2^16 of them; relative to their sum.
  explicit Mixture(std::span<const double> weights);

  std::uint64_t period() const { return source_.size(); }
  /// Source of sample `n`. Constant time.
  std::size_t source_of(std::uint64_t n) const { return source_[n % source_.size()]; }
  /// Number of samples of a source among the first `n`. Constant time.
  std::uint64_t count_of(std::size_t source, std::uint64_t n) const;

 private:
  std::size_t sources_;
  std::vector<std::uint16_t> source_;  // [period]
  std::vector<std::uint32_t> before_;  // [blocks of the period, and its end][sources]: samples before each block
};

/// Whether two lists of weights give the same order.
bool same_mixture(std::span<const double> a, std::span<const double> b);

}  // namespace llmc
