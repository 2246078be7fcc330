// The small parts: random numbers, choice of tokens, constants, and the texts that people and programs read.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "error.h"
#include "train/clock.h"
#include "train/console.h"
#include "train/constants.h"
#include "train/metrics.h"
#include "train/optimizer.h"
#include "train/random.h"
#include "train/sampling.h"

namespace llmc {
namespace {

TEST(Philox, KnownAnswers) {  // of Random123's kat_vectors
  using Words = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformIsBelowOne) {
  EXPECT_LT(uniform({0xffffffff, 0xffffffff, 0, 0}), 1.0);
  EXPECT_EQ(uniform({0, 0, 0, 0}), 0.0);
}

TEST(ChooseToken, FollowsTheCumulativeDistribution) {
  const float logits[] = {std::log(1.0f), std::log(2.0f), std::log(5.0f)};  // 1/8, 2/8, 5/8
  EXPECT_EQ(choose_token(logits, 1, 0.0), 0);
  EXPECT_EQ(choose_token(logits, 1, 0.124), 0);
  EXPECT_EQ(choose_token(logits, 1, 0.126), 1);
  EXPECT_EQ(choose_token(logits, 1, 0.374), 1);
  EXPECT_EQ(choose_token(logits, 1, 0.376), 2);
  EXPECT_EQ(choose_token(logits, 1, 0.999999), 2);
  // At half the temperature weights are squared: 1, 4, 25 of 30.
  EXPECT_EQ(choose_token(logits, 0.5, 0.034), 1);
  EXPECT_EQ(choose_token(logits, 0.5, 0.166), 1);
  EXPECT_EQ(choose_token(logits, 0.5, 0.168), 2);
}

TEST(ChooseToken, ZeroTemperatureTakesTheFirstOfTheLargest) {
  const float logits[] = {1, 3, 3, 2};
  EXPECT_EQ(choose_token(logits, 0, 0.99), 1);
}

TEST(ChooseToken, NeverDrawsWhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const float logits[] = {nan, 0, inf, -inf, 0};
  for (double draw = 0; draw < 1; draw += 0.01) {
    const auto token = choose_token(logits, 1, draw);
    EXPECT_TRUE(token == 1 || token == 4) << token;
  }
  const float none[] = {nan, nan};
  EXPECT_EQ(choose_token(none, 1, 0.5), 0);
}

TEST(Printable, KeepsTextAndShowsTheRestAsBytes) {
  EXPECT_EQ(printable("a\n\tb\xc3\xa9"), "a\n\tb\xc3\xa9");
  EXPECT_EQ(printable("\x1b[2J\r\x7f"), "\\x1b[2J\\x0d\\x7f");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b");  // a control character that some terminals obey
  EXPECT_EQ(printable(std::string("\0", 1)), "\\x00");
}

TEST(Constants, RopeTable) {
  const double frequencies[] = {1.0, 0.25};
  const auto table = rope_table(3, frequencies);
  ASSERT_EQ(table.size(), 12u);
  for (int p = 0; p < 3; ++p)
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(table[static_cast<std::size_t>(4 * p + i)], static_cast<float>(std::cos(p * frequencies[i])));
      EXPECT_EQ(table[static_cast<std::size_t>(4 * p + 2 + i)], static_cast<float>(std::sin(p * frequencies[i])));
    }
}

TEST(Console, Texts) {
  EXPECT_EQ(format_duration(45.9), "45s");
  EXPECT_EQ(format_duration(725), "12m 05s");
  EXPECT_EQ(format_duration(4980), "1h 23m");
  EXPECT_EQ(format_duration(3 * 86400 + 4 * 3600), "3d 04h");
  EXPECT_EQ(format_duration(std::nan("")), "?");
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(1000), "1,000");
  EXPECT_EQ(format_count(-1234567), "-1,234,567");
  EXPECT_EQ(format_progress({120, 20000, 4.12341, 4.30119, 4.2345, 3e-4, 0.849, 12345.4, 4980}),
            "step   120/20000  loss 4.1234  max 4.3012  val 4.2345  lr 3.00e-04  norm 0.85  12,345 tok/s  ETA 1h 23m");
  EXPECT_EQ(format_progress({1, 2, -std::nan(""), {}, -std::nan(""), 3e-4, -std::nan(""), 1, 1}),
            "step 1/2  loss nan  val nan  lr 3.00e-04  norm nan  1 tok/s  ETA 1s");
}

TEST(Buffers, AMissingOneIsNamed) {
  const Buffer list[] = {{"masters", DType::f32, 4, Use::masters, 0}, {"tokens", DType::i32, 3, Use::tokens, 512}};
  EXPECT_EQ(buffer_of(list, Use::tokens).offset, 512u);
  EXPECT_EQ(find_buffer(list, Use::results), nullptr);
  try {
    buffer_of(list, Use::results);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::internal);
    EXPECT_NE(std::string(failure.what()).find("no buffer for results"), std::string::npos) << failure.what();
  }
  const InputBlock block = input_block(list);
  EXPECT_EQ(block.offset, 512u);
  EXPECT_EQ(block.bytes, kArenaAlignment);
}

TEST(Optimizer, ScalarsOfGroups) {
  const ParameterGroup groups[] = {{"matrices", true, 1}, {"others", false, 1}, {"slow", true, 0.25}};
  spec::Optimizer optimizer;
  optimizer.beta1 = 0.9, optimizer.beta2 = 0.95, optimizer.eps = 1e-8, optimizer.weight_decay = 0.1;
  const OptimizerScalars two = optimizer_scalars(optimizer, groups, 0.01, 1);  // the second step
  EXPECT_FLOAT_EQ(two.adamw.bias_correction1, 1 - 0.9f * 0.9f);
  EXPECT_FLOAT_EQ(two.adamw.bias_correction2, 1 - 0.95f * 0.95f);
  EXPECT_EQ(two.adamw.eps, 1e-8f);
  ASSERT_EQ(two.groups.size(), 3u);
  EXPECT_EQ(two.groups[0].lr, 0.01f);
  EXPECT_EQ(two.groups[2].lr, 0.0025f);
  EXPECT_EQ(two.groups[0].weight_decay, 0.1f);
  EXPECT_EQ(two.groups[1].weight_decay, 0.0f);
  optimizer.decay_all = true;
  EXPECT_EQ(optimizer_scalars(optimizer, groups, 0.01, 1).groups[1].weight_decay, 0.1f);
}

TEST(Metrics, Lines) {
  const ParameterInfo parameters[] = {{"a.weight", 0, 1, 1, 1, true, 0, 1, 0, 0}};
  const float norms[] = {0.1f, 2.0f, std::numeric_limits<float>::infinity()};
  const std::uint64_t samples[] = {3, 9};
  StepMetrics metrics;
  metrics.step = 7;
  metrics.loss = std::nan("");
  metrics.lr = 3e-4;
  metrics.grad_norm = 0.3f;
  metrics.tokens = 100;
  metrics.tokens_per_second = 50;
  metrics.seconds = 2;
  EXPECT_EQ(
      format_metrics(metrics, parameters),
      R"({"step":7,"loss":null,"lr":0.0003,"grad_norm":0.3,"tokens":100,"tokens_per_second":50.0,"seconds":2.0})");
  metrics.val_loss = 1.5;
  metrics.skipped_samples = samples;
  metrics.skip_reason = "loss";
  metrics.parameter_norms = norms;
  const auto line = nlohmann::json::parse(format_metrics(metrics, parameters));
  EXPECT_EQ(line["val_loss"], 1.5);
  EXPECT_EQ(line["skipped"], (std::vector<int>{3, 9}));
  EXPECT_EQ(line["skip_reason"], "loss");
  EXPECT_EQ(line["per_parameter"].dump(), R"({"a.weight":{"grad":0.1,"update":null,"weight":2.0}})");
  std::string scalars;
  for (const Scalar& scalar : metrics_scalars(metrics, parameters))
    scalars += fmt::format("{} {}\n", scalar.tag, static_cast<float>(without_nan_sign(scalar.value)));
  EXPECT_EQ(scalars,
            "train/loss nan\ntrain/lr 0.0003\ntrain/grad_norm 0.3\ntrain/tokens 100\ntrain/tokens_per_second 50\n"
            "train/seconds 2\nvalidation/loss 1.5\ntrain/skipped 2\n"
            "grad/a.weight 0.1\nweight/a.weight 2\nupdate/a.weight inf\n");
  EXPECT_EQ(format_sample(4, {"a\n", "\xff"}), "{\"step\":4,\"prompt\":\"a\\n\",\"text\":\"\xef\xbf\xbd\"}");
}

TEST(Clock, CountsFromTheStartOfTheProcess) {
  const double first = process_seconds();
  EXPECT_GE(first, 0);
  EXPECT_LT(first, 600);
  EXPECT_GE(process_seconds(), first);
}

}  // namespace
}  // namespace llmc
