// Mixtures of sources: every prefix is within a sample of its shares, and the order is a function of the sample number.
#include "data/order/mixture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <nlohmann/json.hpp>
#include <numeric>
#include <random>

#include "data/loader.h"
#include "data/order/forecast.h"
#include "files.h"

namespace llmc {
namespace mixtures {

using test::Folder;

constexpr std::int64_t kLength = 8;

/// Expects that after each of the first `samples` samples, every source is within one sample of its share.
void expect_exact(const std::vector<double>& weights, std::uint64_t samples) {
  const Mixture mixture(weights);
  const long double all = std::accumulate(weights.begin(), weights.end(), 0.0L);
  std::vector<std::uint64_t> counts(weights.size());
  long double furthest = 0;
  for (std::uint64_t n = 0; n < samples; ++n) {
    ++counts[mixture.source_of(n)];
    for (std::size_t i = 0; i < weights.size(); ++i)
      furthest = std::max(
          furthest, std::abs(static_cast<long double>(counts[i]) - static_cast<long double>(n + 1) * weights[i] / all));
    if (n % 99991 != 0) continue;
    for (std::size_t i = 0; i < weights.size(); ++i) ASSERT_EQ(mixture.count_of(i, n + 1), counts[i]) << n;
  }
  EXPECT_LT(furthest, 1) << testing::PrintToString(weights);
}

TEST(Mixtures, EveryPrefixIsWithinOneSampleOfItsShares) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 10; ++round) {
    std::vector<double> weights(2 + random() % 9);
    for (double& weight : weights) {
      const double drawn = std::exp(std::uniform_real_distribution<>(-6, 3)(random));
      // Some with a short period, some with one of up to 10^5 samples, some with none.
      weight = round % 3 == 2 ? drawn : std::max(std::round(drawn * 1000) / 1000, 0.001);
    }
    expect_exact(weights, 1'000'000);
  }
  expect_exact({0.5, 0.2, 0.2, 0.1}, 10'000);
  expect_exact({1}, 10);
  expect_exact({1e-6, 1}, 1'000'000);
}

TEST(Mixtures, RepeatTheShortestPeriod) {
  const std::vector<double> shares = {0.5, 0.2, 0.2, 0.1};
  const Mixture mixture(shares);
  EXPECT_EQ(mixture.period(), 10u) << "tenths are exact, though no double is one tenth";
  std::string order;
  for (std::uint64_t n = 0; n < 20; ++n) order += static_cast<char>('a' + mixture.source_of(n));
  EXPECT_EQ(order.substr(0, 10), order.substr(10));
  EXPECT_EQ(Mixture(std::vector<double>{3, 3}).period(), 2u);
  EXPECT_EQ(Mixture(std::vector<double>{0.1, 1e9}).period(), Mixture::kLongestPeriod);
  EXPECT_EQ(mixture.count_of(0, std::uint64_t{10} << 40), std::uint64_t{5} << 40) << "constant time";
  EXPECT_TRUE(same_mixture(shares, std::vector<double>{5, 2, 2, 1}));
  EXPECT_FALSE(same_mixture(shares, std::vector<double>{5, 2, 1, 2}));
  EXPECT_FALSE(same_mixture(shares, std::vector<double>{5, 2, 2}));
}

/// Three sources of 23, 9 and 40 samples.
class MixtureTest : public testing::Test {
 protected:
  MixtureTest() {
    web_ = make("web", 23, 0.5, 0);
    code_ = make("code", 9, 0.3, 2000);
    math_ = make("math", 40, 0.2, 4000);
  }
  Source make(const std::string& name, int samples, double weight, int first) {
    std::vector<int> tokens(static_cast<std::size_t>(samples) * kLength + 1);
    std::iota(tokens.begin(), tokens.end(), first);
    folder_.write(name + ".bin", test::llmc_shard(tokens));
    return {name, weight, 0, std::make_shared<const TokenShards>(folder_ / (name + ".bin"), "auto", 5000, ""), name};
  }
  /// Samples that a source has given, in the order of training.
  static std::vector<std::uint64_t> of_source(const std::vector<SampleId>& all, std::uint32_t source) {
    std::vector<std::uint64_t> ids;
    for (const SampleId sample : all)
      if (sample.source == source) ids.push_back(sample.id);
    return ids;
  }
  static std::vector<SampleId> samples(const Sources& sources, std::uint64_t seed, int count,
                                       const DataPosition& start = {}) {
    MixtureWalk walk(sources, seed, kLength, start);
    std::vector<SampleId> all;
    for (int i = 0; i < count; ++i) all.push_back(walk.next().sample);
    return all;
  }
  Folder folder_;
  Source web_, code_, math_;
};

TEST_F(MixtureTest, ASourceThatIsNeverDrawnIsNamed) {
  const auto warnings = [&](double weight) {
    Sources sources = {code_, web_};
    sources[0].weight = weight;
    sources[1].weight = 1 << 20;
    return never_drawn(sources);
  };
  EXPECT_TRUE(warnings(1.01).empty());
  ASSERT_EQ(warnings(0.9).size(), 1u);
  EXPECT_TRUE(test::has_facts(warnings(0.9).front(), {"data.train.code.weight", "no sample"}));
  EXPECT_TRUE(never_drawn({web_}).empty());
}

TEST_F(MixtureTest, EachSourceKeepsItsOwnOrder) {
  const Sources two = {code_, web_}, three = {code_, math_, web_};
  const auto of_two = samples(two, 5, 400), of_three = samples(three, 5, 400);
  const std::vector<std::uint64_t> code = of_source(of_two, 0), web = of_source(of_two, 1);
  for (std::size_t i = 0; i < 46; ++i)
    EXPECT_EQ(web[i], SampleOrder(23, order_seed(5, "web")).at(i)) << "two epochs in its own order";
  const auto shorter = of_source(of_three, 0);
  EXPECT_TRUE(std::equal(shorter.begin(), shorter.end(), code.begin())) << "another source changes none of it";
  EXPECT_NE(of_source(samples(two, 6, 400), 0), code);
}

/// The position after any step leads to the same batches, on any number of ranks.
TEST_F(MixtureTest, ResumesAnywhereOnAnyNumberOfRanks) {
  const Sources sources = {code_, math_, web_};
  constexpr int kSteps = 40;
  std::vector<StepBatch> straight;
  {
    Loader loader(sources, 5, kLength, 1, 6, {});
    for (int step = 0; step < kSteps; ++step) straight.push_back(loader.next());
  }
  for (int start = 0; start < kSteps; start += 7)
    for (const int ranks : {1, 2, 3, 4}) {
      const DataPosition at = start ? straight[static_cast<std::size_t>(start) - 1].end : DataPosition{};
      std::deque<Loader> loaders;
      for (int rank = 0; rank < ranks; ++rank)
        loaders.emplace_back(sources, 5, kLength, 1, 6, at, RankShare{rank, ranks, false});
      for (int step = start; step < kSteps; ++step) {
        const StepBatch& whole = straight[static_cast<std::size_t>(step)];
        std::size_t taken = 0;
        for (Loader& loader : loaders) {
          const StepBatch part = loader.next();
          EXPECT_TRUE(part.sample_ids == whole.sample_ids);
          EXPECT_TRUE(part.end == whole.end);
          for (const MicroBatch& micro : part.micro_batches)
            EXPECT_EQ(micro.inputs, whole.micro_batches[taken++].inputs);
        }
        EXPECT_EQ(taken, whole.micro_batches.size());
      }
    }
  EXPECT_EQ(straight.back().end.tokens, 240u * kLength);
  const auto uses = uses_of(straight.back().end, sizes_of(sources, kLength), kLength);
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[0].tokens, 72u * kLength);
  EXPECT_DOUBLE_EQ(uses[0].epochs, 8);
  EXPECT_DOUBLE_EQ(uses[1].epochs, 48.0 / 40);
  EXPECT_DOUBLE_EQ(uses[2].epochs, 120.0 / 23);
  EXPECT_DOUBLE_EQ(epochs_of(straight.back().end, sizes_of(sources, kLength), kLength), 240.0 / 72);
}

TEST(Epochs, AnotherSequenceLengthTrainsWhatIsLeft) {
  EXPECT_DOUBLE_EQ(epochs_of({1, {{4, 10}}}, 100), 1.4);
  // Of 40 tokens in the new order, 40 % were trained on before.
  EXPECT_DOUBLE_EQ(epochs_of({1, {{4, 10}, {8, 5}}}, 100), 1.4 + 0.6 * 0.4);
  EXPECT_DOUBLE_EQ(epochs_of({1, {{4, 10}, {8, 13}}}, 100), 2) << "the last order is complete";
}

TEST_F(MixtureTest, PassOverAsTheyStep) {
  const Sources sources = {code_, math_, web_};
  for (const std::uint64_t count : {0u, 1u, 7u, 99u, 100u, 1000u}) {
    MixtureWalk steps(sources, 5, kLength, {}), jump(sources, 5, kLength, {});
    for (std::uint64_t i = 0; i < count; ++i) steps.next();
    jump.pass_over(count);
    EXPECT_EQ(with_tokens(steps.position(), {}), with_tokens(jump.position(), {})) << count;
    EXPECT_EQ(jump.next().sample, steps.next().sample) << count;
  }
}

/// Shards of one text, cut so that no sample is lost.
TEST_F(MixtureTest, OneShardAndAHundredHaveTheSameOrder) {
  std::vector<int> tokens(100 * 3 * kLength + 1);
  std::iota(tokens.begin(), tokens.end(), 0);
  folder_.write("one.bin", test::llmc_shard(tokens));
  for (int shard = 0; shard < 100; ++shard) {
    const auto first = tokens.begin() + shard * 3 * kLength;
    folder_.write("many-" + std::to_string(1000 + shard) + ".bin",
                  test::llmc_shard(std::vector<int>(first, first + 3 * kLength + 1)));
  }
  const auto of = [&](const char* pattern) {
    return Sources{code_,
                   {"text", 0.7, 0, std::make_shared<const TokenShards>(folder_ / pattern, "auto", 5000, ""), ""}};
  };
  Loader one(of("one.bin"), 5, kLength, 10, 100, {}), many(of("many-*.bin"), 5, kLength, 10, 100, {});
  for (int step = 0; step < 5; ++step) {
    const StepBatch a = one.next(), b = many.next();
    EXPECT_TRUE(a.sample_ids == b.sample_ids);
    for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(a.micro_batches[i].inputs, b.micro_batches[i].inputs);
  }
}

TEST_F(MixtureTest, ChangesHoldFromTheNextSampleOn) {
  const Sources two = {code_, web_};
  MixtureWalk walk(two, 5, kLength, {});
  for (int i = 0; i < 100; ++i) walk.next();
  const DataPosition saved = walk.position();
  const auto resume = [&](const Sources& now, bool same_order = true) {
    return continue_in({beginning(now), "now"}, {saved, "saved"}, same_order);
  };
  EXPECT_EQ(resume(two), saved);
  Sources scaled = two;
  for (Source& source : scaled) source.weight *= 10;
  EXPECT_EQ(samples(scaled, 5, 50, resume(scaled)), samples(two, 5, 50, saved)) << "the same mixture";

  // A source is added: the others continue, and from here on each prefix has the new shares.
  const Sources three = {code_, math_, web_};
  const auto added = samples(three, 5, 100, resume(three));
  const auto before = samples(two, 5, 300);
  const auto web = of_source(before, 1), more = of_source(added, 2);
  const std::size_t done = of_source(samples(two, 5, 100), 1).size();
  EXPECT_TRUE(std::equal(more.begin(), more.end(), web.begin() + static_cast<std::ptrdiff_t>(done)));
  for (std::size_t n = 1; n <= 100; ++n)
    EXPECT_LT(std::abs(static_cast<double>(
                           of_source({added.begin(), added.begin() + static_cast<std::ptrdiff_t>(n)}, 1).size()) -
                       0.2 * static_cast<double>(n)),
              1)
        << n;

  // A source that is gone for a while continues where it was, and so does one with a new name.
  MixtureWalk alone({web_}, 5, kLength, resume({web_}));
  for (int i = 0; i < 10; ++i) alone.next();
  const DataPosition back = continue_in({beginning(two), ""}, {alone.position(), ""}, true);
  const auto code = of_source(before, 0), again = of_source(samples(two, 5, 100, back), 0);
  const std::size_t code_done = of_source(samples(two, 5, 100), 0).size();
  EXPECT_TRUE(std::equal(again.begin(), again.end(), code.begin() + static_cast<std::ptrdiff_t>(code_done)));
  Sources renamed = {code_, web_};
  renamed[1].name = "zoo";
  const auto under_new_name = samples(renamed, 5, 50, resume(renamed)), rest = samples(two, 5, 60, saved);
  for (const std::uint32_t source : {0u, 1u}) {
    const auto some = of_source(under_new_name, source), all = of_source(rest, source);
    EXPECT_TRUE(std::equal(some.begin(), some.end(), all.begin()));
  }

  // Other data, or another seed, begin the next epoch.
  Sources other = two;
  other[0].data = "other";
  EXPECT_EQ(epochs_by_name(resume(other))[0].second, epochs_by_name(saved)[0].second + 1);
  EXPECT_EQ(epochs_by_name(resume(other))[1], epochs_by_name(saved)[1]);
  EXPECT_EQ(epochs_by_name(resume(two, false))[1].second, epochs_by_name(saved)[1].second + 1);

  const auto changes = source_changes({saved, ""}, {beginning({math_, web_}), ""});
  ASSERT_EQ(changes.size(), 2u);
  EXPECT_EQ(changes[0].what, SourceChange::removed);
  EXPECT_EQ(changes[1].what, SourceChange::added);
  EXPECT_EQ(changes[1].name, "math");
  EXPECT_TRUE(source_changes({saved, ""}, {beginning(scaled), ""}).empty());
  Source only = web_;
  only.weight = 1;  // as training_sources() gives it
  const auto left = source_changes({saved, ""}, {beginning({only}), ""});
  ASSERT_EQ(left.size(), 1u) << "the only source has all samples, whatever its weight was";
  EXPECT_EQ(left[0].what, SourceChange::removed);
  EXPECT_EQ(source_changes({beginning({only}), ""}, {beginning(scaled), ""}).size(), 1u);
}

/// A run of one source without a name gets names, and keeps its place.
TEST_F(MixtureTest, AListOfOneMayBecomeAMixture) {
  Source plain = web_;
  plain.name.clear();
  MixtureWalk walk({plain}, 5, kLength, {});
  for (int i = 0; i < 30; ++i) walk.next();
  const DataPosition saved = walk.position();
  EXPECT_TRUE(is_plain(saved));
  const DataPosition named = continue_in({beginning({code_, web_}), "all"}, {saved, "web"}, true);
  const auto web = of_source(samples({code_, web_}, 5, 40, named), 1);
  const auto rest = samples({plain}, 5, 25, saved);
  for (std::size_t i = 0; i < web.size(); ++i) EXPECT_EQ(web[i], rest[i].id);
  EXPECT_EQ(uses_of(named, sizes_of({code_, web_}, kLength), kLength)[1].tokens, 30u * kLength);
  EXPECT_EQ(continue_in({beginning({plain}), "web"}, {named, "all"}, true).sources[0].progress,
            saved.sources[0].progress)
      << "and back";
  const Sources at = sources_at({code_, web_}, {saved, "web"});
  ASSERT_EQ(at.size(), 1u);
  EXPECT_EQ(at[0].name, "");
  EXPECT_TRUE(sources_at({code_}, {saved, "web"}).empty());
}

/// A change of length within an epoch: no target twice, in any source.
TEST_F(MixtureTest, AnotherLengthSkipsWhatIsDone) {
  const Sources sources = {code_, web_};
  MixtureWalk first(sources, 5, kLength, {});
  std::vector<int> times(5000);
  const auto count = [&](MixtureWalk& walk, std::int64_t length, int samples_left) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(length) + 1);
    for (int i = 0; i < samples_left; ++i) {
      std::vector<std::int32_t> targets;
      walk.next([&](SampleId of) {
        walk.samples(of.source).read(static_cast<std::int64_t>(of.id), tokens);
        targets.assign(tokens.begin() + 1, tokens.end());
        return std::span(targets);
      });
      for (const std::int32_t target : targets)
        if (target >= 0) ++times[static_cast<std::size_t>(target)];
    }
  };
  count(first, kLength, 10);
  MixtureWalk second(sources, 5, 2 * kLength, first.position());
  count(second, 2 * kLength, 6);
  EXPECT_EQ(epoch_of(second.position()), 0u);
  for (const int n : times) EXPECT_LE(n, 1);
  EXPECT_EQ(std::accumulate(times.begin(), times.end(), std::uint64_t{0}), second.position().tokens);
}

TEST_F(MixtureTest, ForecastsWhatTheRunRepeats) {
  const Sources sources = {code_, math_, web_};  // 9, 40 and 23 samples; 30, 20 and 50 %
  const auto of = forecast(sources, beginning(sources), {0, 40, 6, kLength});
  EXPECT_EQ(of[0].name, "code");
  EXPECT_DOUBLE_EQ(of[0].lasts, 5);  // 9 samples of 1.8 a step
  EXPECT_DOUBLE_EQ(of[0].epochs, 8);
  EXPECT_DOUBLE_EQ(of[0].repeats, 63.0 / 240);
  EXPECT_DOUBLE_EQ(of[1].epochs, 1.2);
  EXPECT_DOUBLE_EQ(of[2].repeats, 97.0 / 240);
  EXPECT_TRUE(test::has_facts(forecast_text(of[0]), {"code", "30.0 %", "5 steps", "8.00", "26.2 %"}));

  Sources limited = sources;
  limited[0].most_epochs = 4;
  limited[2].most_epochs = 3;
  const auto check = [&](std::int64_t stop) { check_most_epochs(limited, beginning(limited), {0, stop, 6, kLength}); };
  check(20);
  EXPECT_FAILS_WITH(check(21), "data.train.code", "21 steps", "4", "20 steps", "schedule.steps=20");
  EXPECT_FAILS_WITH(check(1000), "data.train.code", "20");
  limited[2].most_epochs = 2;
  EXPECT_FAILS_WITH(check(1000), "data.train.web", "15");
  limited[2].most_epochs = 0.01;
  EXPECT_FAILS_WITH(check(5), "data.train.web", "0 steps");
}

TEST_F(MixtureTest, PositionsAreReadAsWritten) {
  MixtureWalk walk({code_, web_}, 5, kLength, {});
  for (int i = 0; i < 77; ++i) walk.next();
  DataPosition position = continue_in({beginning({web_}), ""}, {walk.position(), ""}, true);
  position.sources[1].order = "before";
  nlohmann::json json;
  write_position(json, position);
  EXPECT_EQ(read_position(json), position);
  EXPECT_TRUE(is_possible(position));
  std::swap(position.sources[0], position.sources[1]);
  EXPECT_FALSE(is_possible(position)) << "not sorted";
  nlohmann::json plain;
  write_position(plain, plain_position(80, {1, {{8, 2}}}));
  EXPECT_EQ(plain.dump(), R"({"epoch":1,"tokens":80,"visited":[{"samples":2,"sequence_length":8}]})");
  EXPECT_EQ(read_position(plain), plain_position(80, {1, {{8, 2}}}));
}

}  // namespace mixtures
}  // namespace llmc
