// A resumed run has all that its checkpoint has.
#include <gtest/gtest.h>

#include "trainer/startup/resume_guard.h"

namespace llmc {
namespace {

/// As a run begins.
TrainState begun(std::uint64_t seed, const char* data, const char* tokenizer) {
  TrainState state;
  state.seed = seed;
  state.data_seed = seed + 1;
  state.model_fingerprint = "m";
  state.data_fingerprint = data;
  state.tokenizer = tokenizer;
  return state;
}

TrainState checkpoint() {
  TrainState state = begun(1, "d", "t");
  state.step = 7;
  state.position = plain_position(5, {1, {{8, 3}}});
  state.guard.rollbacks = 4;
  state.best = Best{6, "validation", 0.5};
  state.skipped_updates = 3;
  state.loss_scale = LossScale{.factor = 32};
  state.separator = 2;
  return state;
}

TEST(Resumed, HasEveryFieldOfTheCheckpoint) {
  const TrainState saved = checkpoint(), fresh;
  // A field that is new stands here, in checkpoint(), and where it is compared.
  const auto& [step, position, seed, data_seed, model, data, tokenizer, guard, best, skipped, loss_scale, separator] =
      saved;
  EXPECT_TRUE(step != fresh.step && !(position == fresh.position) && seed != fresh.seed &&
              data_seed != fresh.data_seed && model != fresh.model_fingerprint && data != fresh.data_fingerprint &&
              tokenizer != fresh.tokenizer && !(guard == fresh.guard) && best && skipped != fresh.skipped_updates &&
              loss_scale && separator != fresh.separator);
  EXPECT_EQ(resumed(saved, begun(1, "d", "")), saved);
}

TEST(Resumed, GoesOnWithTheRunsOwnSeedsAndData) {
  const TrainState saved = checkpoint();
  TrainState expected = saved;
  expected.position = plain_position(5, {2, {}});
  expected.seed = 3, expected.data_seed = 4;
  expected.data_fingerprint = "e", expected.tokenizer = "u";
  EXPECT_EQ(resumed(saved, begun(3, "e", "u")), expected);
  TrainState ours = begun(3, "e", "u");
  ours.separator = expected.separator = 9;
  EXPECT_EQ(resumed(saved, ours), expected);
}

}  // namespace
}  // namespace llmc
