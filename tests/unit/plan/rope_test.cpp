#include "compiler/plan/rope.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace llmc::plan {
namespace {

spec::Model model(const spec::RopeScaling& scaling) {
  spec::Model m;
  m.head_dim = 16;
  m.rope_theta = 10000;
  m.rope_scaling = scaling;
  return m;
}

double plain(int pair) { return std::pow(10000.0, -pair / 8.0); }

TEST(Rope, LinearDividesAll) {
  const auto f = inverse_frequencies(model({.type = spec::RopeType::linear, .factor = 4}));
  ASSERT_EQ(f.size(), 8u);
  for (int i = 0; i < 8; ++i) EXPECT_DOUBLE_EQ(f[static_cast<std::size_t>(i)], plain(i) / 4);
  EXPECT_EQ(rope_table_scale(model({.type = spec::RopeType::linear, .factor = 4})), 1);
}

// The ramp of pairs, by transformers' find_correction_range: 16 ln(64 / (2 pi beta)) / (2 ln 10000).
TEST(Rope, YarnHasARampBetweenWholePairs) {
  spec::RopeScaling scaling{.type = spec::RopeType::yarn,
                            .factor = 4,
                            .original_max_position_embeddings = 64,
                            .beta_fast = 4,
                            .beta_slow = 0.5,
                            .attention_factor = 1.25};
  const auto pair_of = [](double beta) {
    return 16 * std::log(64 / (2 * std::numbers::pi * beta)) / (2 * std::log(10000.0));
  };
  EXPECT_NEAR(pair_of(4), 0.81, 0.005);
  EXPECT_NEAR(pair_of(0.5), 2.62, 0.005);
  const auto expect = [&](double low, double high) {
    const auto f = inverse_frequencies(model(scaling));
    for (int i = 0; i < 8; ++i) {
      const double scaled = std::clamp((i - low) / (high - low), 0.0, 1.0);
      EXPECT_NEAR(f[static_cast<std::size_t>(i)], plain(i) * (1 - scaled) + plain(i) / 4 * scaled, 1e-15) << i;
    }
  };
  expect(0, 3);
  scaling.truncate = false;
  expect(pair_of(4), pair_of(0.5));
  EXPECT_EQ(rope_table_scale(model(scaling)), 1.25);
  scaling.truncate = true, scaling.beta_fast = 11, scaling.beta_slow = 10.5;  // the ramp begins and ends at pair 0
  const auto f = inverse_frequencies(model(scaling));
  EXPECT_EQ(f[0], plain(0));
  EXPECT_DOUBLE_EQ(f[1], plain(1) / 4);
}

TEST(Rope, APartOfAHeadHasTheAnglesOfAHeadOfItsSize) {
  for (const spec::RopeScaling& scaling :
       {spec::RopeScaling{}, spec::RopeScaling{.type = spec::RopeType::yarn,
                                               .factor = 4,
                                               .original_max_position_embeddings = 64,
                                               .beta_fast = 4,
                                               .beta_slow = 0.5}}) {
    spec::Model part = model(scaling), small = model(scaling);
    part.head_dim = 32, part.partial_rotary_factor = 0.25, small.head_dim = 8;
    EXPECT_EQ(inverse_frequencies(part), inverse_frequencies(small));
    EXPECT_EQ(inverse_frequencies(part).size(), 4u);
  }
}

TEST(Rope, SlidingLayersAreNotScaled) {
  spec::Model m = model({.type = spec::RopeType::linear, .factor = 4});
  m.rope_local_theta = m.rope_theta;
  const std::vector<double> full = inverse_frequencies(m), local = local_inverse_frequencies(m);
  for (std::size_t i = 0; i < full.size(); ++i) EXPECT_DOUBLE_EQ(local[i], 4 * full[i]) << i;
  m.rope_local_theta = 100;
  EXPECT_DOUBLE_EQ(local_inverse_frequencies(m)[1], std::pow(100.0, -2.0 / static_cast<double>(m.head_dim)));
}

}  // namespace
}  // namespace llmc::plan
