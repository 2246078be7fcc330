// Sharding of the flat buffers: nothing twice, nothing omitted, aligned.
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "program/chunks.h"
#include "program/shards.h"

namespace llmc {
namespace {

/// Three buckets with their gaps: the second is smaller than a shard of many ranks.
constexpr Bucket kBuckets[] = {{0, 1000}, {1000 + share_gap(kShareUnit), 24}, {1024 + 2 * share_gap(kShareUnit), 5000}};
constexpr std::int64_t kElements = 6024 + 3 * share_gap(kShareUnit);

TEST(Shares, EachElementIsOneRanks) {
  for (const int ranks : {2, 3, 4, 7, 64, kMostRanks}) {
    std::vector<int> owners(kElements);
    for (int rank = 0; rank < ranks; ++rank) {
      const Shares shares(kBuckets, DataRank{rank, ranks});
      std::vector<int> used(static_cast<std::size_t>(shares.state_elements()));
      shares.own(0, kElements, [&](std::int64_t flat, std::int64_t state, std::int64_t count) {
        ASSERT_GE(state, 0);
        ASSERT_LE(state + count, shares.state_elements());
        EXPECT_EQ(flat % kShareUnit, 0);
        EXPECT_EQ(state % kShareUnit, 0);
        for (std::int64_t i = 0; i < count; ++i) {
          ++owners[static_cast<std::size_t>(flat + i)];
          ++used[static_cast<std::size_t>(state + i)];
        }
      });
      EXPECT_LE(*std::max_element(used.begin(), used.end()), 1) << ranks << " ranks";
    }
    for (std::int64_t i = 0; i < kElements; ++i) {
      const bool inside = std::any_of(std::begin(kBuckets), std::end(kBuckets),
                                      [i](const Bucket& b) { return i >= b.offset && i < b.offset + b.elements; });
      ASSERT_EQ(owners[static_cast<std::size_t>(i)], inside) << "element " << i << " of " << ranks << " ranks";
    }
  }
}

TEST(Shares, EqualSharesEndBeforeTheNextBucket) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks)
    for (const Bucket& bucket : kBuckets) {
      const std::int64_t share = share_of(bucket.elements, ranks);
      EXPECT_EQ(share * 2 % 16, 0);  // bytes of bf16
      EXPECT_GE(share * ranks, bucket.elements);
      EXPECT_LE(share * ranks, bucket.elements + share_gap(kShareUnit));
    }
}

TEST(Shares, OfOneRankAllIsWhereItIs) {
  const Shares shares(kBuckets);
  EXPECT_EQ(shares.state_elements(), kBuckets[2].offset + kBuckets[2].elements);
  shares.own(100, 50, [](std::int64_t flat, std::int64_t state, std::int64_t count) {
    EXPECT_EQ(flat, 100);
    EXPECT_EQ(state, 100);
    EXPECT_EQ(count, 50);
  });
}

/// A matrix in the third bucket, and two parameters in the first.
std::vector<ParameterInfo> parameters() {
  const auto parameter = [](const char* name, std::int64_t offset, std::int64_t rows, std::int64_t cols) {
    return ParameterInfo{name, offset, rows, cols, cols, rows > 1, 0, 0, 0, 0};
  };
  return {parameter("a", 0, 1, 600), parameter("matrix", kBuckets[2].offset, 50, 100), parameter("b", 608, 1, 392)};
}

TEST(Chunks, HaveTheSameNumberOnEveryRankAndEachElementOnce) {
  const auto all = parameters();
  const ChunkTable alone = make_chunks(all, 256, Shares(kBuckets));
  for (const int ranks : {2, 3, 5}) {
    std::vector<std::int64_t> lengths(alone.chunks.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const Shares shares(kBuckets, DataRank{rank, ranks});
      const ChunkTable table = make_chunks(all, 256, shares);
      ASSERT_EQ(table.chunks.size(), alone.chunks.size());
      EXPECT_EQ(table.first_chunk, alone.first_chunk);
      for (std::size_t i = 0; i < table.chunks.size(); ++i) {
        const Chunk &part = table.chunks[i], &whole = alone.chunks[i];
        EXPECT_EQ(part.parameter, whole.parameter);
        lengths[i] += part.length;
        if (!part.length) continue;
        EXPECT_GE(part.offset, whole.offset);
        EXPECT_LE(part.offset + part.length, whole.offset + whole.length);
        EXPECT_LE(part.state + part.length, shares.state_elements());
      }
    }
    for (std::size_t i = 0; i < lengths.size(); ++i) EXPECT_EQ(lengths[i], alone.chunks[i].length);
  }
}

}  // namespace
}  // namespace llmc
