#include "data/order/order.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace llmc {
namespace {

TEST(SampleOrder, EveryEpochVisitsEverySampleOnce) {
  for (const std::uint64_t n : {1u, 2u, 3u, 4u, 5u, 7u, 16u, 17u, 100u, 255u, 256u, 257u, 1000u, 4097u}) {
    const SampleOrder order(n, 1337);
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < n; ++i) seen.insert(order.at(epoch * n + i));
      ASSERT_EQ(seen.size(), n) << "epoch " << epoch;
      ASSERT_LT(*seen.rbegin(), n);
    }
  }
}

TEST(SampleOrder, PlaceIsTheInverse) {
  for (std::uint64_t n : {1, 2, 5, 100, 1000}) {
    const SampleOrder order(n, 1337);
    for (std::uint64_t epoch = 0; epoch < 2; ++epoch)
      for (std::uint64_t i = 0; i < n; ++i) ASSERT_EQ(order.place(epoch, order.at(epoch * n + i)), i) << n;
  }
}

TEST(SampleOrder, EpochsAndSeedsDiffer) {
  constexpr std::uint64_t n = 1000;
  const SampleOrder order(n, 1), other(n, 2);
  int epoch_same = 0, seed_same = 0, sorted_same = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    epoch_same += order.at(i) == order.at(n + i);
    seed_same += order.at(i) == other.at(i);
    sorted_same += order.at(i) == i;
  }
  // Two random permutations agree at one index on average (Poisson); more than 8 has a probability of 1e-6.
  EXPECT_LE(epoch_same, 8);
  EXPECT_LE(seed_same, 8);
  EXPECT_LE(sorted_same, 8);
}

TEST(SampleOrder, NeighboursAreNotCorrelated) {
  constexpr std::uint64_t n = 10007;
  const SampleOrder order(n, 42);
  double sum = 0;
  std::set<std::uint64_t> steps;
  for (std::uint64_t i = 0; i + 1 < n; ++i) {
    const double x = static_cast<double>(order.at(i)) / n - 0.5, y = static_cast<double>(order.at(i + 1)) / n - 0.5;
    sum += 12 * x * y;
    steps.insert((order.at(i + 1) + n - order.at(i)) % n);
  }
  EXPECT_LT(std::abs(sum / n), 4 / std::sqrt(static_cast<double>(n)));  // four standard deviations
  EXPECT_GT(steps.size(), n / 2);  // an affine shuffle has one step size; random permutations have n (1 - 1/e)
}

TEST(SampleOrder, SmallSetsReachEveryOrder) {
  std::set<std::vector<std::uint64_t>> orders;
  const SampleOrder order(4, 7);
  for (std::uint64_t epoch = 0; epoch < 2000; ++epoch) {
    std::vector<std::uint64_t> visited;
    for (std::uint64_t i = 0; i < 4; ++i) visited.push_back(order.at(epoch * 4 + i));
    orders.insert(visited);
  }
  EXPECT_EQ(orders.size(), 24u);  // all of them
}

TEST(SampleOrder, WorksPast32BitsAndIsTheSameEverywhere) {
  const std::uint64_t n = (std::uint64_t{1} << 40) + 12345;
  const SampleOrder order(n, 99);
  std::set<std::uint64_t> seen;
  for (std::uint64_t i = 0; i < 1000; ++i) seen.insert(order.at(n - 500 + i));  // across an epoch's end
  EXPECT_GE(seen.size(), 999u);  // two epochs may share a sample; the chance of two such pairs is 1e-13
  EXPECT_LT(*seen.rbegin(), n);
  EXPECT_GT(*seen.rbegin(), std::uint64_t{1} << 32);
  // Golden order: saved runs must resume on other machines and versions in this order.
  const SampleOrder small(10, 1337);
  std::vector<std::uint64_t> golden;
  for (std::uint64_t i = 0; i < 20; ++i) golden.push_back(small.at(i));
  EXPECT_EQ(golden, (std::vector<std::uint64_t>{0, 1, 8, 4, 5, 6, 7, 2, 3, 9, 7, 5, 3, 8, 9, 0, 2, 1, 6, 4}));
}

}  // namespace
}  // namespace llmc
