// Compares the packer with all orders of placement, on random lifetimes.
#include "compiler/plan/packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace llmc::plan {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool alive_together(const PackedBuffer& a, const PackedBuffer& b) { return a.first <= b.last && b.first <= a.last; }

/// Smallest possible block. Some order of placing each item at the lowest free offset reaches it, because any packing
/// can be compacted in the order of its offsets.
std::size_t smallest(std::vector<PackedBuffer> items) {
  std::vector<std::size_t> order(items.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::size_t best = SIZE_MAX;
  do {
    std::size_t top = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      PackedBuffer& item = items[order[i]];
      item.offset = 0;
      for (bool moved = true; moved;) {
        moved = false;
        for (std::size_t j = 0; j < i; ++j) {
          const PackedBuffer& other = items[order[j]];
          if (!alive_together(item, other)) continue;
          const std::size_t end = other.offset + aligned(other.bytes);
          if (item.offset < end && other.offset < item.offset + aligned(item.bytes)) item.offset = end, moved = true;
        }
      }
      top = std::max(top, item.offset + aligned(item.bytes));
    }
    best = std::min(best, top);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

std::vector<PackedBuffer> draw(std::mt19937& rng, int count) {
  std::vector<PackedBuffer> items;
  for (int i = 0; i < count; ++i) {
    const int first = static_cast<int>(rng() % 8), last = first + static_cast<int>(rng() % 4);
    items.push_back({1 + rng() % 3000, first, last, 0});
  }
  return items;
}

void expect_disjoint(const std::vector<PackedBuffer>& items, const Packing& packing) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    EXPECT_EQ(items[i].offset % kAlignment, 0u);
    EXPECT_LE(items[i].offset + items[i].bytes, packing.bytes);
    for (std::size_t j = 0; j < i; ++j) {
      if (!alive_together(items[i], items[j])) continue;
      EXPECT_TRUE(items[i].offset + items[i].bytes <= items[j].offset ||
                  items[j].offset + items[j].bytes <= items[i].offset)
          << "items " << j << " and " << i;
    }
  }
}

TEST(Packing, AgainstAllOrders) {
  std::mt19937 rng(1);
  int best = 0;
  constexpr int kTrials = 300;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<PackedBuffer> items = draw(rng, 6);
    const std::size_t optimum = smallest(items);
    const Packing packing = pack(items, kAlignment);
    expect_disjoint(items, packing);
    EXPECT_LE(packing.bound, optimum);
    EXPECT_GE(packing.bytes, optimum);
    best += packing.bytes == optimum;
  }
  EXPECT_EQ(best, kTrials) << "of so few every order is tried";
}

TEST(Packing, ManyItems) {
  std::mt19937 rng(2);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<PackedBuffer> items = draw(rng, 200);
    expect_disjoint(items, pack(items, kAlignment));
  }
}

/// Transients of a plan: placing the largest first, or any buffer that lies highest first, takes 5 % more than is live.
TEST(Packing, LongLivesBeforeLargeSizes) {
  std::vector<PackedBuffer> items = {
      {50160, 1, 2, 0},    {50160, 26, 45, 0}, {380, 1, 1, 0},      {380, 26, 47, 0},   {109440, 2, 4, 0},
      {109440, 27, 43, 0}, {72960, 4, 5, 0},   {72960, 29, 43, 0},  {4560, 4, 4, 0},    {4560, 29, 43, 0},
      {50160, 5, 9, 0},    {50160, 30, 39, 0}, {50160, 6, 7, 0},    {50160, 31, 35, 0}, {380, 6, 6, 0},
      {380, 31, 39, 0},    {97280, 7, 8, 0},   {97280, 32, 33, 0},  {48640, 8, 9, 0},   {48640, 33, 34, 0},
      {50160, 10, 19, 0},  {380, 10, 22, 0},   {487920, 11, 19, 0}, {380, 11, 22, 0},   {380, 11, 22, 0},
      {380, 11, 22, 0},    {380, 11, 22, 0},   {50160, 16, 22, 0},  {50160, 20, 50, 0}, {48640, 25, 33, 0},
      {97280, 33, 38, 0},  {50160, 38, 39, 0}, {72960, 42, 43, 0},  {98304, 43, 43, 0}, {109440, 43, 46, 0},
      {50160, 46, 47, 0},  {5808, 21, 22, 0},  {5808, 23, 24, 0},   {11264, 36, 37, 0}, {5808, 39, 40, 0},
      {5808, 47, 48, 0},   {296, 55, 62, 0},   {296, 59, 62, 0},    {296, 59, 62, 0},   {528, 14, 15, 0}};
  const Packing packing = pack(items, kAlignment);
  expect_disjoint(items, packing);
  EXPECT_EQ(packing.bytes, packing.bound);
}

TEST(Packing, LifetimesThatNeverMeetShareOnePlace) {
  std::vector<PackedBuffer> items = {{1000, 0, 1, 0}, {1000, 2, 3, 0}, {700, 4, 4, 0}};
  const Packing packing = pack(items, kAlignment);
  EXPECT_EQ(packing.bytes, 1024u);
  EXPECT_EQ(packing.bound, 1024u);
  for (const PackedBuffer& item : items) EXPECT_EQ(item.offset, 0u);
}

TEST(Packing, BothEndsOfALifetimeCount) {
  const PackedBuffer early = {256, 0, 1, 0}, late = {256, 1, 2, 0};
  std::vector<PackedBuffer> one = {early, late}, other = {late, early};
  EXPECT_EQ(pack(one, kAlignment).bytes, 512u);
  EXPECT_EQ(pack(other, kAlignment).bytes, 512u);
}

TEST(Packing, NothingNeedsNothing) {
  std::vector<PackedBuffer> none;
  EXPECT_EQ(pack(none, kAlignment).bytes, 0u);
}

}  // namespace
}  // namespace llmc::plan
