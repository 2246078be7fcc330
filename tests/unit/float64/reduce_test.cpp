#include "compiler/tools/float64/reduce.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "compiler/plan/plan.h"
#include "small_spec.h"
#include "spec/print.h"

namespace llmc::float64 {
namespace {

spec::Spec reduced(const std::vector<std::string>& more, bool short_pass) {
  std::vector<std::string> words = {"model.hidden_size=64",      "model.head_dim=16",   "model.intermediate_size=64",
                                    "model.num_hidden_layers=6", "batch.micro_batch=4", "batch.tokens=192"};
  words.insert(words.end(), more.begin(), more.end());
  const spec::Spec spec = small_spec(words).spec;
  return reduce(spec, plan::make_plan(spec), 2, "train.bin", short_pass).spec;
}

/// Weight gradients in fp8 are sums over tokens, of which a sequence has 24.
TEST(Reduce, AShortPassKeepsAMultipleOf16TokensForFp8Full) {
  EXPECT_EQ(reduced({"precision.matmul=fp8"}, true).batch.micro_batch, 1);
  EXPECT_EQ(reduced({"precision.matmul=fp8_full"}, true).batch.micro_batch, 2);
  EXPECT_EQ(reduced({"precision.matmul=fp8_full"}, false).batch.micro_batch, 4);
  EXPECT_EQ(reduced({"precision.matmul=mxfp8"}, true).batch.micro_batch, 4) << "of 32 tokens";
}

TEST(Reduce, ALayerInBf16AtEitherEndIsKeptOnce) {
  const spec::Spec ends =
      reduced({"precision.matmul=fp8", "precision.fp8.first_layers=2", "precision.fp8.last_layers=1"}, false);
  EXPECT_EQ(ends.model.num_hidden_layers, 2);
  EXPECT_EQ(ends.fp8.first_layers, 1);
  EXPECT_EQ(ends.fp8.last_layers, 0);
  const spec::Spec last = reduced({"precision.matmul=fp8", "precision.fp8.last_layers=2"}, false);
  EXPECT_EQ(last.fp8.first_layers, 0);
  EXPECT_EQ(last.fp8.last_layers, 1);
}

/// Loads the reduced run of a spec as a file of its own, as `llmc verify` does.
void expect_loads(const spec::Resolved& resolved, const std::string& name) {
  const plan::Plan plan = plan::make_plan(resolved.spec);
  for (const bool short_pass : {false, true}) {
    spec::Resolved again = resolved;
    again.spec = reduce(resolved.spec, plan, 2, "train.bin", short_pass).spec;
    const spec::LoadResult loaded = spec::load_text(spec::to_yaml(again, false), name);
    EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  }
}

TEST(Reduce, EverySpecOfTheRepositoryIsStillOne) {
  int files = 0;
  for (const auto& file : std::filesystem::directory_iterator(SOURCE_FOLDER "/specs")) {
    if (file.path().extension() != ".yaml") continue;
    ++files;
    spec::LoadResult loaded = spec::load(file.path().string());
    if (loaded.resolved) loaded.phases.push_back(*loaded.resolved);
    EXPECT_FALSE(loaded.phases.empty()) << spec::render(loaded.diagnostics);
    for (const spec::Resolved& phase : loaded.phases) expect_loads(phase, file.path().filename().string());
  }
  EXPECT_GT(files, 5);
}

TEST(Reduce, AWarmUpLeavesRoomForTheDecay) {
  const auto warmup = [](const char* fraction, std::int64_t steps) {
    const spec::Spec spec = small_spec({"schedule.kind=wsd", fraction, "schedule.warmup_steps=40"}).spec;
    return reduce(spec, plan::make_plan(spec), steps, "train.bin", false).spec.schedule.warmup_steps;
  };
  EXPECT_EQ(warmup("schedule.decay_fraction=0.65", 2), 0);
  EXPECT_EQ(warmup("schedule.decay_fraction=0.5", 2), 1);
  EXPECT_EQ(warmup("schedule.decay_fraction=0.65", 20), 7);
  expect_loads(small_spec({"schedule.kind=wsd", "schedule.decay_fraction=0.9", "schedule.warmup_steps=40"}), "wsd");
}

TEST(Reduce, AShortPassHoldsWholeLossChunks) {
  const auto chunk = [](const std::vector<std::string>& words) {
    const spec::Resolved resolved = small_spec(words);
    expect_loads(resolved, words.front());
    return reduce(resolved.spec, plan::make_plan(resolved.spec), 2, "train.bin", true).spec.memory.loss_chunk;
  };
  EXPECT_EQ(chunk({"batch.micro_batch=2", "memory.loss_chunk=16"}), 12) << "of 24 rows";
  EXPECT_EQ(chunk({"batch.micro_batch=2", "memory.loss_chunk=8"}), 8);
  EXPECT_EQ(chunk({"batch.micro_batch=2", "memory.loss_chunk=48"}), 24);
  EXPECT_EQ(chunk({"batch.sequence_length=23", "batch.micro_batch=8", "batch.tokens=184", "memory.loss_chunk=8"}), 23)
      << "and not chunks of 1 row";
  const std::vector<std::string> fp8 = {
      "target.kind=cuda",           "target.arch=[90a]",        "model.hidden_size=64", "model.head_dim=16",
      "model.intermediate_size=64", "model.vocab_size=64",      "precision.matmul=fp8", "precision.fp8.head=forward",
      "batch.micro_batch=2",        "batch.sequence_length=30", "batch.tokens=60"};
  std::vector<std::string> words = fp8;
  words.push_back("memory.loss_chunk=20");
  EXPECT_EQ(chunk(words), 30) << "no smaller divisor is a multiple of 4";
}

}  // namespace
}  // namespace llmc::float64
