#include "data/order.h"

#include <bit>

namespace llmc {

namespace {

constexpr int kRounds = 8;  // four make a good permutation for large n; small halves need more to mix

/// splitmix64's finaliser (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t permute(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
  if (n <= 1) return 0;
  const int half = (std::bit_width(n - 1) + 1) / 2;  // bits of each half: the domain is below 4n, so walks are short
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  const std::uint64_t key = mix(mix(seed) ^ epoch);
  do {
    std::uint64_t left = index >> half, right = index & mask;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (mix(key + static_cast<std::uint64_t>(round) + (right << 8)) & mask);
      left = right;
      right = next;
    }
    index = left << half | right;
  } while (index >= n);
  return index;
}

}  // namespace llmc
