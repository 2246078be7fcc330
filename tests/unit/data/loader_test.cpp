#include "data/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "files.h"

namespace llmc {
namespace {

using test::Folder;

constexpr std::int64_t kLength = 8;

/// 23 samples in two shards, so that no batch size divides an epoch.
class LoaderTest : public testing::Test {
 protected:
  LoaderTest() {
    folder_.write("s-0.bin", test::llmc_shard(test::counting(13 * kLength + 1, 50)));
    folder_.write("s-1.bin", test::llmc_shard(test::counting(10 * kLength + 4, 50, 1000)));
    shards_ = std::make_shared<TokenShards>(folder_ / "s-*.bin", "auto", 50, "");
  }
  Folder folder_;
  std::shared_ptr<const TokenShards> shards_;
  const Sources& sources() {
    if (sources_.empty()) sources_ = test::one_source(shards_);
    return sources_;
  }

 private:
  Sources sources_;
};

/// Position of a run that has visited `samples` of the 23.
DataPosition after(int samples) {
  const auto n = static_cast<std::uint64_t>(samples);
  return plain_position(n * kLength, {n / 23, {{kLength, n % 23}}});
}

void expect_equal(const StepBatch& a, const StepBatch& b) {
  EXPECT_EQ(a.sample_ids, b.sample_ids);
  EXPECT_EQ(a.target_count, b.target_count);
  ASSERT_EQ(a.micro_batches.size(), b.micro_batches.size());
  for (std::size_t i = 0; i < a.micro_batches.size(); ++i) {
    const MicroBatch &x = a.micro_batches[i], &y = b.micro_batches[i];
    EXPECT_EQ(x.inputs, y.inputs);
    EXPECT_EQ(x.targets, y.targets);
    EXPECT_EQ(x.order, y.order);
    EXPECT_EQ(x.run_begin, y.run_begin);
    EXPECT_EQ(x.run_token, y.run_token);
    EXPECT_EQ(x.run_count, y.run_count);
  }
}

/// Changes the length within epoch 0: each target that the last length covers occurs exactly once, and the position of
/// any step leads to the same batches.
TEST(LoaderLengths, NoTokenTwiceAndNoneLeftOut) {
  Folder folder;
  std::vector<int> tokens(4001);
  std::iota(tokens.begin(), tokens.end(), 0);
  const std::vector<int> first(tokens.begin(), tokens.begin() + 1707), second(tokens.begin() + 1707, tokens.end());
  folder.write("s-0.bin", test::llmc_shard(first));
  folder.write("s-1.bin", test::llmc_shard(second));
  const Sources shards = test::one_source(std::make_shared<const TokenShards>(folder / "s-*.bin", "auto", 5000, ""));
  const std::vector<std::vector<std::pair<std::int64_t, int>>> courses = {
      {{16, 40}, {32, 1000}}, {{32, 50}, {16, 1000}}, {{16, 3}, {48, 20}, {8, 100}, {24, 1000}}, {{16, 0}, {32, 1000}}};
  for (const auto& course : courses) {
    DataPosition position;
    std::map<int, int> times;
    for (const auto& [length, most] : course) {
      Loader loader(shards, 5, length, 1, 1, position);
      for (int i = 0; i < most && epoch_of(position) == 0; ++i) {
        const StepBatch batch = loader.next();
        Loader again(shards, 5, length, 1, 1, position);
        expect_equal(again.next(), batch);
        EXPECT_GT(batch.target_count, 0);
        EXPECT_EQ(batch.end.tokens, position.tokens + static_cast<std::uint64_t>(batch.target_count));
        position = batch.end;
        // After the last sample with unvisited targets the next epoch begins.
        const bool next = epoch_of(position) == 1 && position.sources[0].progress.segments.back().samples > 0;
        for (const int target : batch.micro_batches[0].targets)
          if (target >= 0 && !next) ++times[target];
      }
    }
    EXPECT_EQ(epoch_of(position), 1u);
    const auto& segments = position.sources[0].progress.segments;
    ASSERT_EQ(segments.size(), 1u) << "what was before the epoch's end is forgotten";
    EXPECT_EQ(segments[0].sequence_length, course.back().first);
    for (const auto& [target, count] : times) EXPECT_EQ(count, 1) << target;
    const std::int64_t last = course.back().first;
    for (std::int64_t t = 1; t <= 1706 / last * last; ++t) EXPECT_EQ(times[static_cast<int>(t)], 1) << t;
    for (std::int64_t t = 1; t <= 2293 / last * last; ++t) EXPECT_EQ(times[static_cast<int>(1707 + t)], 1) << t;
  }
}

/// pass_over() of any number of samples reaches the same position as that many steps, with one or several segments.
TEST(SampleWalks, PassOverAsTheyStep) {
  Folder folder;
  folder.write("s-0.bin", test::llmc_shard(test::counting(13 * kLength + 1, 50)));
  folder.write("s-1.bin", test::llmc_shard(test::counting(10 * kLength + 4, 50, 1000)));
  const auto shards = std::make_shared<const TokenShards>(folder / "s-*.bin", "auto", 50, "");
  for (const SourceProgress& start :
       {SourceProgress{}, SourceProgress{2, {{kLength, 21}}}, SourceProgress{0, {{16, 4}}},
        SourceProgress{1, {{4, 30}, {16, 2}, {kLength, 1}}}})
    for (std::uint64_t count = 0; count < 60; ++count) {
      SampleWalk steps(shards, 5, kLength, start), jump(shards, 5, kLength, start);
      for (std::uint64_t i = 0; i < count; ++i) steps.next();
      jump.pass_over(count);
      EXPECT_TRUE(jump.progress() == steps.progress()) << count;
      EXPECT_TRUE(jump.next() == steps.next()) << count;
    }
  SampleWalk far(shards, 5, kLength, {});
  far.pass_over(std::uint64_t{23} << 40);  // must take constant time, or this test never ends
  EXPECT_EQ(far.progress().epoch, std::uint64_t{1} << 40);
  EXPECT_EQ(far.progress().segments[0].samples, 0u);
}

TEST_F(LoaderTest, OtherDataBeginTheirNextEpoch) {
  for (const bool same_order : {true, false}) {
    const DataPosition next = continue_in({{}, same_order ? "other" : "data"}, {after(30), "data"}, same_order);
    EXPECT_EQ(next.tokens, 30u * kLength);
    const StepBatch batch = Loader(sources(), 5, kLength, 1, 1, next).next();
    EXPECT_EQ(batch.sample_ids[0].id, SampleOrder(23, 5).at(2 * 23));
    EXPECT_EQ(epoch_of(batch.end), 2u);
  }
  EXPECT_EQ(continue_in({{}, "data"}, {after(30), "data"}, true), after(30));
}

TEST_F(LoaderTest, BatchesAreTheSamplesInOrder) {
  Loader loader(sources(), 5, kLength, 2, 6, {});
  EXPECT_EQ(sizes_of(sources(), kLength)[0].samples, 23);
  const Samples samples(shards_, kLength);
  const SampleOrder order(23, 5);
  std::uint64_t consumed = 0;
  StepBatch batch;
  for (int step = 0; step < 12; ++step) {  // three epochs
    batch = loader.next(std::move(batch));
    ASSERT_EQ(batch.micro_batches.size(), 3u);
    ASSERT_EQ(batch.sample_ids.size(), 6u);
    EXPECT_EQ(batch.target_count, 6 * kLength);
    for (std::size_t s = 0; s < 6; ++s) {
      EXPECT_EQ(batch.sample_ids[s].id, order.at(consumed++));
      std::vector<std::int32_t> tokens(kLength + 1);
      samples.read(static_cast<std::int64_t>(batch.sample_ids[s].id), tokens);
      const MicroBatch& micro = batch.micro_batches[s / 2];
      const auto row = static_cast<std::ptrdiff_t>(s % 2 * kLength);
      EXPECT_TRUE(std::equal(tokens.begin(), tokens.end() - 1, micro.inputs.begin() + row));
      EXPECT_TRUE(std::equal(tokens.begin() + 1, tokens.end(), micro.targets.begin() + row));
      EXPECT_EQ(micro.target_count, 2 * kLength);
    }
  }
}

TEST_F(LoaderTest, ResumedAnywhereEqualsUninterrupted) {
  constexpr int kSteps = 20;  // of 6 samples: five epochs of 23, ends inside steps
  std::vector<StepBatch> straight;
  {
    Loader loader(sources(), 5, kLength, 3, 6, {});
    for (int step = 0; step < kSteps; ++step) straight.push_back(loader.next());
  }
  for (int start = 0; start < kSteps; ++start) {
    Loader loader(sources(), 5, kLength, 3, 6, after(start * 6));
    StepBatch batch;
    for (int step = start; step < kSteps; ++step) {
      batch = loader.next(std::move(batch));
      expect_equal(batch, straight[static_cast<std::size_t>(step)]);
    }
  }
}

TEST_F(LoaderTest, AResumedLoaderAtAnEpochsEndStartsTheNextEpochsOrder) {
  Loader first(sources(), 5, kLength, 23, 23, {}), second(sources(), 5, kLength, 23, 23, after(23));
  const StepBatch epoch0 = first.next(), epoch1 = first.next(), resumed = second.next();
  EXPECT_NE(epoch0.sample_ids, epoch1.sample_ids);
  expect_equal(resumed, epoch1);
  for (const StepBatch* epoch : {&epoch0, &epoch1}) {
    std::set<std::uint64_t> ids;
    for (const SampleId sample : epoch->sample_ids) ids.insert(sample.id);
    EXPECT_EQ(ids.size(), 23u);
  }
}

TEST_F(LoaderTest, AStepMayBeLargerThanAnEpoch) {
  Loader loader(sources(), 5, kLength, 10, 50, {});
  const StepBatch batch = loader.next();
  std::map<std::uint64_t, int> times;
  for (const SampleId sample : batch.sample_ids) ++times[sample.id];
  EXPECT_EQ(times.size(), 23u);
  for (const auto& [id, n] : times) EXPECT_TRUE(n == 2 || n == 3) << id;
}

/// Ranks run consecutive micro-batches of the same global batches, also after a change of length has masked targets.
TEST_F(LoaderTest, RanksShareOutEveryStep) {
  const DataPosition changed = plain_position(4 * kLength, {0, {{kLength / 2, 9}, {kLength, 0}}});
  for (const DataPosition& start : {after(0), changed})
    for (const int ranks : {2, 3, 5}) {
      Loader alone(sources(), 7, kLength, 2, 10, start);
      std::deque<Loader> loaders;
      for (int rank = 0; rank < ranks; ++rank)
        loaders.emplace_back(sources(), 7, kLength, 2, 10, start, RankShare{rank, ranks, rank == 1});
      for (int step = 0; step < 6; ++step) {
        const StepBatch whole = alone.next();
        std::size_t taken = 0;
        for (int rank = 0; rank < ranks; ++rank) {
          const StepBatch part = loaders[static_cast<std::size_t>(rank)].next();
          EXPECT_EQ(part.sample_ids, whole.sample_ids);
          EXPECT_EQ(part.target_count, whole.target_count);
          EXPECT_EQ(part.end, whole.end);
          EXPECT_EQ(part.micro_batches.size(), rank == 1 ? whole.micro_batches.size() : part.past - part.begin);
          for (std::size_t i = part.begin; i < part.past; ++i, ++taken) {
            EXPECT_EQ(part.micro_batches[i].inputs, whole.micro_batches[taken].inputs);
            EXPECT_EQ(part.micro_batches[i].targets, whole.micro_batches[taken].targets);
          }
        }
        EXPECT_EQ(taken, whole.micro_batches.size());
      }
    }
}

TEST_F(LoaderTest, RefusesMoreRanksThanMicroBatches) {
  EXPECT_THROW(Loader(sources(), 1, kLength, 2, 4, after(0), RankShare{0, 3}), Failure);
}

TEST_F(LoaderTest, ErrorsReachTheCallerEveryTime) {
  folder_.write("late.bin", test::llmc_shard<std::uint32_t>(std::vector<std::uint32_t>(9, 0xffffffffu)));
  const Sources late = test::one_source(std::make_shared<const TokenShards>(folder_ / "late.bin", "auto", 0, ""));
  Loader loader(late, 5, kLength, 1, 1, {});
  EXPECT_FAILS_WITH(loader.next(), "late.bin': has token 4294967295");
  EXPECT_FAILS_WITH(loader.next(), "late.bin': has token 4294967295");
}

TEST_F(LoaderTest, AShardThatIsCutShortIsAnErrorOfItsThread) {
  // Before the thread starts: later, it might compare sizes before it touches a page that is gone.
  std::filesystem::resize_file(folder_ / "s-0.bin", 0);
  Loader loader(sources(), 1, kLength, 1, 4, {});
  const auto read = [&] {
    for (int step = 0; step < 20; ++step) loader.next({});
  };
  EXPECT_FAILS_WITH(read(), "s-0.bin'", "cut short", "0 bytes");
}

TEST_F(LoaderTest, StopsCleanlyAtAnyMoment) {
  for (int taken = 0; taken < 5; ++taken) {
    Loader loader(sources(), 5, kLength, 1, 2, {});
    for (int i = 0; i < taken; ++i) loader.next();
  }
}

TEST_F(LoaderTest, RefusesAMicroBatchThatDoesNotDivide) {
  test::failure_of([&] { Loader(sources(), 5, kLength, 4, 6, {}); }, Exit::internal);
  test::failure_of([&] { Loader(sources(), 5, kLength, 1, 6, plain_position(0, {0, {{kLength, 24}}})); },
                   Exit::checkpoint);
}

TEST(IndexTokens, IsAStableSortByToken) {
  std::mt19937 random(1);
  std::vector<std::int32_t> counts;
  for (const int vocab : {1, 2, 7, 1000}) {
    MicroBatch batch;
    for (int i = 0; i < 300; ++i) {
      batch.inputs.push_back(static_cast<std::int32_t>(random() % static_cast<unsigned>(vocab)));
      batch.targets.push_back(i % 3 == 0 ? -1 : 1);
    }
    index_tokens(batch, counts);
    std::vector<std::int32_t> expected(300);
    std::iota(expected.begin(), expected.end(), 0);
    std::ranges::stable_sort(expected, {}, [&](std::int32_t p) { return batch.inputs[static_cast<std::size_t>(p)]; });
    EXPECT_EQ(batch.order, expected);
    EXPECT_EQ(batch.target_count, 200);
    ASSERT_EQ(batch.run_begin.size(), 301u);
    ASSERT_EQ(batch.run_token.size(), 300u);
    const std::set<std::int32_t> distinct(batch.inputs.begin(), batch.inputs.end());
    ASSERT_EQ(batch.run_count, static_cast<std::int32_t>(distinct.size()));
    EXPECT_TRUE(std::equal(distinct.begin(), distinct.end(), batch.run_token.begin()));
    EXPECT_EQ(batch.run_begin[0], 0);
    EXPECT_EQ(batch.run_begin[distinct.size()], 300);
    for (std::size_t run = 0; run < distinct.size(); ++run) {
      ASSERT_LT(batch.run_begin[run], batch.run_begin[run + 1]);
      for (auto p = batch.run_begin[run]; p < batch.run_begin[run + 1]; ++p)
        ASSERT_EQ(batch.inputs[static_cast<std::size_t>(batch.order[static_cast<std::size_t>(p)])],
                  batch.run_token[run]);
    }
  }
}

TEST_F(LoaderTest, EvaluationIsSpreadEvenlyAndFilledUp) {
  const auto batches = evaluation_batches(shards_, kLength, 4, 6).own;
  ASSERT_EQ(batches.size(), 2u);
  EXPECT_EQ(batches[0].target_count, 4 * kLength);
  EXPECT_EQ(batches[1].target_count, 2 * kLength);
  const Samples samples(shards_, kLength);
  for (std::int64_t i = 0; i < 6; ++i) {
    std::vector<std::int32_t> tokens(kLength + 1);
    samples.read(i * 23 / 6, tokens);
    const MicroBatch& batch = batches[static_cast<std::size_t>(i / 4)];
    EXPECT_TRUE(std::equal(tokens.begin(), tokens.end() - 1, batch.inputs.begin() + i % 4 * kLength)) << i;
    EXPECT_TRUE(std::equal(tokens.begin() + 1, tokens.end(), batch.targets.begin() + i % 4 * kLength)) << i;
  }
  for (std::size_t p = 2 * kLength; p < 4 * kLength; ++p) {
    EXPECT_EQ(batches[1].inputs[p], 0);
    EXPECT_EQ(batches[1].targets[p], -1);
  }
  EXPECT_EQ(batches[1].run_begin[static_cast<std::size_t>(batches[1].run_count)], 4 * kLength);
  EXPECT_EQ(evaluation_batches(shards_, kLength, 4, 1000).count, 6);  // all 23 samples
}

TEST_F(LoaderTest, ARankKeepsOnlyItsOwnBatchesOfAnEvaluation) {
  const EvaluationBatches all = evaluation_batches(shards_, kLength, 2, 13);
  ASSERT_EQ(all.own.size(), 7u);
  EXPECT_TRUE(all.idle.inputs.empty());
  for (int size = 1; size <= 9; ++size)
    for (int index = 0; index < size; ++index) {
      std::int64_t visited = 0;
      const EvaluationBatches of =
          evaluation_batches(shards_, kLength, 2, 13, {}, {index, size}, [&](std::span<const std::int32_t> targets) {
            visited += std::ssize(targets) - std::ranges::count(targets, -1);
          });
      EXPECT_EQ(std::tuple(of.count, of.targets, visited), std::tuple(7, 13 * kLength, 13 * kLength));
      std::size_t own = 0;
      for (auto i = static_cast<std::size_t>(index); i < 7; i += static_cast<std::size_t>(size), ++own) {
        ASSERT_LT(own, of.own.size());
        EXPECT_EQ(of.own[own].targets, all.own[i].targets);
        EXPECT_EQ(of.own[own].order, all.own[i].order);
        EXPECT_EQ(of.own[own].target_count, all.own[i].target_count);
      }
      EXPECT_EQ(of.own.size(), own);
      const bool idles = own < (6 + static_cast<std::size_t>(size)) / static_cast<std::size_t>(size);
      EXPECT_EQ(of.idle.inputs, idles ? all.own[0].inputs : std::vector<std::int32_t>()) << index << " of " << size;
      EXPECT_EQ(of.idle.target_count, 0);
    }
}

}  // namespace
}  // namespace llmc
