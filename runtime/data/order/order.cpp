#include "data/order/order.h"

#include <bit>

namespace llmc {

namespace {

constexpr int kRounds = 8;  // four give a good permutation for large n; small n needs more rounds to mix

/// Finaliser of splitmix64 (Steele, Lea, Flood 2014).
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

}  // namespace

namespace {

/// Width and round keys of the Feistel network for one (n, seed, epoch).
struct Network {
  int half;  // bits of each half; the domain is below 4n, so cycle walks are short
  std::uint64_t mask, key;

  Network(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch)
      : half((std::bit_width(n - 1) + 1) / 2), mask((std::uint64_t{1} << half) - 1), key(mix(mix(seed) ^ epoch)) {}

  std::uint64_t round(int number, std::uint64_t right) const {
    return mix(key + static_cast<std::uint64_t>(number) + (right << 8)) & mask;
  }
};

}  // namespace

std::uint64_t permute(std::uint64_t index, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
  if (n <= 1) return 0;
  const Network network(n, seed, epoch);
  do {
    std::uint64_t left = index >> network.half, right = index & network.mask;
    for (int round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ network.round(round, right);
      left = right;
      right = next;
    }
    index = left << network.half | right;
  } while (index >= n);
  return index;
}

std::uint64_t unpermute(std::uint64_t image, std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) {
  if (n <= 1) return 0;
  const Network network(n, seed, epoch);
  do {
    std::uint64_t left = image >> network.half, right = image & network.mask;
    for (int round = kRounds - 1; round >= 0; --round) {
      const std::uint64_t before = right ^ network.round(round, left);
      right = left;
      left = before;
    }
    image = left << network.half | right;
  } while (image >= n);
  return image;
}

}  // namespace llmc
