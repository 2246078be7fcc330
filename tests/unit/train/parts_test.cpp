// Small parts: random numbers, choice of tokens, constants, and texts for people and programs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "../facts.h"
#include "error.h"
#include "host/clock.h"
#include "host/limits.h"
#include "spec/length/schedule_line.h"
#include "step/constants.h"
#include "step/fits.h"
#include "step/optimizer.h"
#include "step/random.h"
#include "text/console.h"
#include "text/printable.h"
#include "train/first_loss.h"
#include "train/listeners/progress_line.h"
#include "train/metrics.h"
#include "train/sampling.h"
#include "train/usage.h"
#include "trainer/commands/calibrate.h"
#include "trainer/commands/product_rate.h"

namespace llmc {
namespace {

TEST(Fits, WhatIsLargerThanTheMachineIsRefused) {
  constexpr std::size_t kTooMuch = std::size_t{1} << 50;
  const auto code_of = [](std::size_t arena, std::size_t process, int ranks) {
    ProgramInfo info{};
    info.process_bytes = process;
    try {
      check_fits(info, arena, ranks);
    } catch (const Failure& failure) {
      return failure.code();
    }
    return Exit::done;
  };
  EXPECT_EQ(code_of(1 << 20, 1 << 20, 1), Exit::done);
  EXPECT_EQ(code_of(kTooMuch, 1 << 20, 1), Exit::does_not_fit);
  EXPECT_EQ(code_of(1 << 20, kTooMuch, 1), Exit::does_not_fit);
  EXPECT_EQ(code_of(1 << 20, 1 << 30, 1 << 20), Exit::does_not_fit) << "all ranks together";
  EXPECT_EQ(code_of(kTooMuch, 0, 1), Exit::done) << "on a GPU";
}

TEST(Philox, KnownAnswers) {  // from Random123's kat_vectors
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
  EXPECT_EQ(choose_token(logits, 1, 1, 0.0), 0);
  EXPECT_EQ(choose_token(logits, 1, 1, 0.124), 0);
  EXPECT_EQ(choose_token(logits, 1, 1, 0.126), 1);
  EXPECT_EQ(choose_token(logits, 1, 1, 0.374), 1);
  EXPECT_EQ(choose_token(logits, 1, 1, 0.376), 2);
  EXPECT_EQ(choose_token(logits, 1, 1, 0.999999), 2);
  // At half the temperature weights are squared: 1, 4, 25 out of 30.
  EXPECT_EQ(choose_token(logits, 0.5, 1, 0.034), 1);
  EXPECT_EQ(choose_token(logits, 0.5, 1, 0.166), 1);
  EXPECT_EQ(choose_token(logits, 0.5, 1, 0.168), 2);
}

TEST(ChooseToken, ZeroTemperatureTakesTheFirstOfTheLargest) {
  const float logits[] = {1, 3, 3, 2};
  EXPECT_EQ(choose_token(logits, 0, 1, 0.99), 1);
}

TEST(ChooseToken, NeverDrawsWhatIsNotFinite) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const float logits[] = {nan, 0, inf, -inf, 0};
  for (double draw = 0; draw < 1; draw += 0.01) {
    const auto token = choose_token(logits, 1, 1, draw);
    EXPECT_TRUE(token == 1 || token == 4) << token;
  }
  const float none[] = {nan, nan};
  EXPECT_EQ(choose_token(none, 1, 1, 0.5), 0);
}

TEST(ChooseToken, DrawsFromTheNucleus) {
  const float logits[] = {std::log(2.0f), std::log(5.0f), std::log(1.0f), std::log(2.0f)};  // .2, .5, .1, .2
  const auto drawn = [&](double top_p) {
    std::array<int, 4> counts{};
    for (int i = 0; i < 1000; ++i) ++counts[static_cast<std::size_t>(choose_token(logits, 1, top_p, (i + 0.5) / 1000))];
    return counts;
  };
  using Counts = std::array<int, 4>;
  EXPECT_EQ(drawn(1), (Counts{200, 500, 100, 200}));
  EXPECT_EQ(drawn(0.85), (Counts{222, 556, 0, 222}));  // all three are needed: .7 is too little
  EXPECT_EQ(drawn(0.6), (Counts{286, 714, 0, 0}));     // the first of equal ones
  EXPECT_EQ(drawn(0.5 - 1e-9), (Counts{0, 1000, 0, 0}));
  EXPECT_EQ(drawn(1e-9), (Counts{0, 1000, 0, 0}));  // never empty
  // At twice the temperature weights are square roots: 1.41, 2.24, 1, 1.41 out of 6.06.
  EXPECT_EQ(choose_token(logits, 2, 0.3, 0.999), 1);
  EXPECT_EQ(choose_token(logits, 2, 0.4, 0.999), 1);
  EXPECT_EQ(choose_token(logits, 2, 0.4, 0.0), 0);
  const float odd[] = {std::numeric_limits<float>::quiet_NaN(), 1, 1, std::numeric_limits<float>::infinity()};
  EXPECT_EQ(choose_token(odd, 1, 0.5, 0.999), 1);
}

TEST(Printable, KeepsTextAndShowsTheRestAsBytes) {
  EXPECT_EQ(printable_text("a\n\tb\xc3\xa9"), "a\n\tb\xc3\xa9");
  EXPECT_EQ(printable_text("\x1b[2J\r\x7f"), "\\x1b[2J\\x0d\\x7f");
  EXPECT_EQ(printable_text("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable_text("\xc2\x9b"), "\\xc2\\x9b");  // a control character in some terminals
  EXPECT_EQ(printable_text(std::string("\0", 1)), "\\x00");
}

TEST(Constants, RopeTable) {
  const double frequencies[] = {1.0, 0.25};
  const auto table = rope_table(3, frequencies), scaled = rope_table(3, frequencies, 1.5),
             pairs = rope_table(3, frequencies, 1.5, true);
  ASSERT_EQ(table.size(), 12u);
  for (int p = 0; p < 3; ++p)
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(table[static_cast<std::size_t>(4 * p + i)], static_cast<float>(std::cos(p * frequencies[i])));
      EXPECT_EQ(table[static_cast<std::size_t>(4 * p + 2 + i)], static_cast<float>(std::sin(p * frequencies[i])));
      EXPECT_EQ(scaled[static_cast<std::size_t>(4 * p + i)], static_cast<float>(1.5 * std::cos(p * frequencies[i])));
      EXPECT_EQ(scaled[static_cast<std::size_t>(4 * p + 2 + i)],
                static_cast<float>(1.5 * std::sin(p * frequencies[i])));
      EXPECT_EQ(pairs[static_cast<std::size_t>(4 * p + 2 * i)], scaled[static_cast<std::size_t>(4 * p + i)]);
      EXPECT_EQ(pairs[static_cast<std::size_t>(4 * p + 2 * i + 1)], scaled[static_cast<std::size_t>(4 * p + 2 + i)]);
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
  EXPECT_EQ(format_progress({120, 20000, 4.12341, 4.30119, 4.2345, 3e-4, 0.849, 12345.4, {}, 4980}),
            "step   120/20000  loss 4.1234  max 4.3012  val 4.2345  lr 3.00e-04  norm 0.85  12,345 tok/s  ETA 1h 23m");
  EXPECT_EQ(format_progress({1, 2, -std::nan(""), {}, -std::nan(""), 3e-4, -std::nan(""), 1, {}, 1}),
            "step 1/2  loss nan  val nan  lr 3.00e-04  norm nan  1 tok/s  ETA 1s");
}

TEST(Console, TheStepsLeftOfABatchRampCountByTheirTokens) {
  Console console;
  ProgressLine::Of of{.console = console,
                      .peaks = {},
                      .stop = 100,
                      .phase_last = 40,
                      .batch_tokens = 1000,
                      .tokens_after = 60 * 4000,
                      .set = ""};
  EXPECT_EQ(of.steps_after(30), 10 + 240);
  EXPECT_EQ(of.steps_after(40), 240);
  of.tokens_after = 500;  // of a smaller batch
  EXPECT_EQ(of.steps_after(39), 1.5);
  of.phase_last = 100, of.tokens_after = 0;
  EXPECT_EQ(of.steps_after(30), 70);
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
  const ParameterGroup groups[] = {
      {"matrices", ParameterRole::matrices}, {"others", ParameterRole::vectors}, {"slow", ParameterRole::head}};
  spec::Optimizer optimizer;
  optimizer.rate_scale = {1, 0.25, 8, 2};
  optimizer.betas_of = {{{0.9, 0.95}, {0.5, 0.75}, {}, {0.8, 0.99}}};
  optimizer.eps = 1e-8;
  optimizer.weight_decay_of = {0.1, 0.2, 0, 0.05};
  const OptimizerScalars two = optimizer_scalars(optimizer, groups, {.lr = 0.01}, 1);  // after one update
  AdamwScalars adamw;
  ASSERT_EQ(two.records.size(), 1u);
  ASSERT_EQ(two.records[0].size(), 3 * sizeof adamw);
  std::memcpy(&adamw, two.records[0].data(), sizeof adamw);
  EXPECT_EQ(adamw.updates, 1u);
  EXPECT_FLOAT_EQ(adamw.bias_correction1[0], 1 - 0.9f * 0.9f);
  EXPECT_FLOAT_EQ(adamw.bias_correction1[1], 1 - 0.9f * 0.9f * 0.9f);
  EXPECT_FLOAT_EQ(adamw.bias_correction2[0], 1 - 0.95f * 0.95f);
  EXPECT_FLOAT_EQ(adamw.bias_correction2[1], 1 - 0.95f * 0.95f * 0.95f);
  EXPECT_EQ(adamw.eps, 1e-8f);
  std::memcpy(&adamw, &two.records[0][2 * sizeof adamw], sizeof adamw);
  EXPECT_EQ(adamw.beta1, 0.5f) << "the head's";
  EXPECT_EQ(adamw.bias_correction2[0], 1 - 0.75f * 0.75f);
  ASSERT_EQ(two.groups.size(), 3u);
  EXPECT_EQ(two.groups[0].lr, 0.01f);
  EXPECT_EQ(two.groups[1].lr, 0.02f);
  EXPECT_EQ(two.groups[2].lr, 0.0025f);
  EXPECT_EQ(two.groups[0].weight_decay, 0.1f);
  EXPECT_EQ(two.groups[1].weight_decay, 0.05f);
  EXPECT_EQ(two.groups[2].weight_decay, 0.2f);
  const OptimizerScalars late = optimizer_scalars(optimizer, groups, {.lr = 0.01, .weight_decay = 0.25}, 1);
  EXPECT_EQ(late.groups[2].weight_decay, 0.05f) << "a quarter is left";
  EXPECT_EQ(late.groups[2].lr, 0.0025f);
}

TEST(Optimizer, EachThatGroupsNameHasItsScalars) {
  ParameterGroup groups[] = {{"matrices", ParameterRole::matrices, OptimizerKind::lion},
                             {"head", ParameterRole::head},
                             {"embedding", ParameterRole::embedding, OptimizerKind::adamw},
                             {"vectors", ParameterRole::vectors, OptimizerKind::lion}};
  const auto named = [&](OptimizerKind kind) {
    std::string text;
    for (const GroupsOptimizer& of : optimizers_of(groups, kind))
      text += fmt::format("{} {:#b} ", row_of(of.kind).name, of.groups);
    return text;
  };
  EXPECT_EQ(named(OptimizerKind::adamw), "lion 0b1001 adamw 0b110 ");
  EXPECT_EQ(named(OptimizerKind::lion), "lion 0b1011 adamw 0b100 ");
  spec::Optimizer optimizer;
  optimizer.kind = OptimizerKind::adamw;
  const OptimizerScalars both = optimizer_scalars(optimizer, groups, {.lr = 0.01}, 1);
  ASSERT_EQ(both.records.size(), 2u);
  EXPECT_EQ(both.records[0].size(), 4 * sizeof(LionScalars));
  EXPECT_EQ(both.records[1].size(), 4 * sizeof(AdamwScalars));
  EXPECT_EQ(both.groups.size(), 4u);
  for (ParameterGroup& group : groups) group.optimizer = {};
  EXPECT_EQ(optimizers_of(groups, OptimizerKind::lion)[0].groups, kAllGroups) << "also those that a spec may add";
}

TEST(ProductRate, TheLargestPlainProductWithinBounds) {
  GemmShape small{.name = "qkv", .m = 512, .n = 256, .k = 128}, large = small, gradient = small;
  large.n = 4096;
  gradient.m = gradient.n = 8192, gradient.transpose_a = gradient.accumulates = true;
  EXPECT_FALSE(measured_shape({}, true));
  EXPECT_FALSE(measured_shape(std::vector{gradient}, true));
  const std::vector<GemmShape> all = {small, large, gradient};
  EXPECT_EQ(measured_shape(all, true)->n, 4096) << "half of what may be";
  std::vector<GemmShape> huge = {large};
  huge[0].n = 128000, huge[0].k = 4096, huge[0].m = 8192;
  const GemmShape whole = *measured_shape(huge, false), part = *measured_shape(huge, true);
  EXPECT_EQ(whole.m * whole.n, 8192 * 128000);
  EXPECT_LE(2.0 * static_cast<double>(part.m * part.n * part.k), kBoundedFlops);
  EXPECT_TRUE(part.m % 64 == 0 && part.n % 64 == 0 && part.k == 4096 && part.m >= 64 && part.n >= 64);
  EXPECT_EQ(describe({2e11, small}), "200.0 GFLOP/s measured, 512 x 256 x 128 in fp32");
  small.tiles = true;
  EXPECT_EQ(describe({2e11, small}), "200.0 GFLOP/s measured, 512 x 256 x 128 in bf16x3");
}

TEST(Calibrate, SizesThatFitNoTilesAreTimedWithout) {
  for (const GemmForm& form : {GemmForm{"forward", false, true}, GemmForm{"gradient", true, false}}) {
    EXPECT_TRUE(timed_shape(form, 64, 96, 32, DType::bf16, true).tiles);
    EXPECT_FALSE(timed_shape(form, 64, 96, 32, DType::bf16, false).tiles);
    EXPECT_FALSE(timed_shape(form, 64, 100, 32, DType::bf16, true).tiles);
  }
}

TEST(Metrics, SecondsOfALine) {
  EXPECT_EQ(seconds_of(R"({"step":3,"seconds":2.5,"total_seconds":9.5})"), 9.5);
  EXPECT_EQ(seconds_of(R"({"step":3,"seconds":2.5})"), 2.5) << "of a version without the other";
  EXPECT_EQ(seconds_of(R"({"step":3})"), 0);
  EXPECT_EQ(seconds_of("no line"), 0);
  EXPECT_EQ(seconds_of(""), 0);
}

TEST(Metrics, Lines) {
  const ParameterInfo parameters[] = {{"a.weight", 0, 1, 1, 1, true, 0, 1, 0, 0}};
  const float norms[] = {std::numeric_limits<float>::infinity(), 2.0f, 0.5f};
  const SampleId samples[] = {{3, 0}, {9, 1}};
  StepMetrics metrics;
  metrics.step = 7;
  metrics.results.loss = std::nan("");
  metrics.lr = 3e-4;
  StepResults& results = metrics.results;
  results.grad_norm = 0.3f;
  results.top1 = 0.25, results.lse = 9.1, results.lse_max = -std::numeric_limits<double>::infinity();
  results.entropy = 5.5;
  const char* const names[] = {"z_loss"};
  const double reports[] = {0.0125};
  const std::vector<Figure> figures = figures_of(results, names, reports);
  metrics.figures = figures;
  metrics.ignored = 0.125, metrics.epochs = 1.5, metrics.data_wait = 0.25;
  metrics.tokens = 100;
  metrics.tokens_per_second = 50;
  metrics.seconds = 2;
  metrics.total_seconds = 7;
  EXPECT_EQ(
      format_metrics(metrics, parameters),
      R"({"step":7,"loss":null,"lr":0.0003,"grad_norm":0.3,"top1":0.25,"lse_mean":9.1,"lse_max":null,)"
      R"("entropy":5.5,"z_loss":0.0125,"ignored":0.125,"tokens":100,"tokens_per_second":50.0,"seconds":2.0,"total_seconds":7.0,"epochs":1.5,)"
      R"("data_wait":0.25})");
  metrics.loss_scale = 65536.0f;
  metrics.mfu = 0.5;
  metrics.product_share = 0.75;
  metrics.evaluation_seconds = 3;
  metrics.saving_seconds = 4;
  metrics.audited = {1.25, 6};
  metrics.memory = {1024, 2048};
  const std::vector<Validation> validations = {{"", 1.5, 0.5, 0.75}, {"web", 2.5, 0.25, {}}};
  metrics.validation = validations;
  const std::vector<TaskResult> answers = {{"arc", 8, 0.5, 0.625}};
  metrics.answers = answers;
  metrics.skipped_samples = samples;
  metrics.skip_reason = "loss";
  metrics.parameter_norms = norms;
  const auto line = nlohmann::json::parse(format_metrics(metrics, parameters));
  EXPECT_EQ(line["val_loss"], 1.5);
  EXPECT_EQ(line["val_top1"], 0.5);
  EXPECT_EQ(line["val_bits_per_byte"], 0.75);
  EXPECT_EQ(line["val_loss/web"], 2.5);
  EXPECT_EQ(line["val_top1/web"], 0.25);
  EXPECT_FALSE(line.contains("val_bits_per_byte/web"));
  EXPECT_EQ(line["task/arc"], 0.5);
  EXPECT_EQ(line["task/arc/norm"], 0.625);
  EXPECT_EQ(line["loss_scale"], 65536);
  EXPECT_EQ(line["mfu"], 0.5);
  EXPECT_EQ(line["product_share"], 0.75);
  EXPECT_EQ(line["evaluation_seconds"], 3);
  EXPECT_EQ(line["saving_seconds"], 4);
  EXPECT_EQ(line["audit_loss"], 1.25);
  EXPECT_TRUE(line["audit_difference"].is_null());  // the loss is not finite
  EXPECT_EQ(line["audit_seconds"], 6);
  EXPECT_EQ(line["memory"], 1024);
  EXPECT_EQ(line["resident"], 2048);
  EXPECT_EQ(line["skipped"], (std::vector<int>{3, 9}));
  EXPECT_EQ(line["skip_reason"], "loss");
  // The device computes no norms for a skipped update: these are from the previous step.
  EXPECT_EQ(line["per_parameter"].dump(), R"({"a.weight":{"grad":null}})");
  std::string scalars;
  for (const Scalar& scalar : metrics_scalars(metrics, parameters))
    scalars += fmt::format("{} {}\n", scalar.tag, static_cast<float>(without_nan_sign(scalar.value)));
  EXPECT_EQ(scalars,
            "train/loss nan\ntrain/lr 0.0003\ntrain/grad_norm 0.3\ntrain/top1 0.25\ntrain/lse_mean 9.1\n"
            "train/lse_max -inf\ntrain/entropy 5.5\ntrain/z_loss 0.0125\ntrain/loss_scale 65536\ntrain/ignored 0.125\n"
            "train/tokens 100\ntrain/tokens_per_second 50\n"
            "train/seconds 2\ntrain/total_seconds 7\ntrain/epochs 1.5\ntrain/data_wait 0.25\ntrain/mfu "
            "0.5\ntrain/product_share 0.75\n"
            "validation/loss 1.5\nvalidation/top1 0.5\nvalidation/bits_per_byte 0.75\n"
            "validation/loss/web 2.5\nvalidation/top1/web 0.25\n"
            "task/arc 0.5\ntask/arc/norm 0.625\n"
            "train/evaluation_seconds 3\naudit/loss 1.25\naudit/difference nan\ntrain/audit_seconds 6\n"
            "train/saving_seconds 4\ntrain/memory 1024\ntrain/resident 2048\n"
            "train/skipped 2\n"
            "grad/a.weight inf\n");
  metrics.skipped_samples = {};
  EXPECT_EQ(nlohmann::json::parse(format_metrics(metrics, parameters))["per_parameter"].dump(),
            R"({"a.weight":{"grad":null,"ratio":0.25,"update":0.5,"weight":2.0}})");
  EXPECT_EQ(metrics_scalars(metrics, parameters).back().tag, "ratio/a.weight");
  EXPECT_EQ(format_sample(4, {"a\n", "\xff"}), "{\"step\":4,\"prompt\":\"a\\n\",\"text\":\"\xef\xbf\xbd\"}");
}

TEST(Console, ProgressFitsAnyWidth) {
  const Progress progress{120, 20000, 4.12341, 4.30119, 4.2345, 3e-4, 0.849, 12345.4, 0.5161, 4980};
  const std::string all =
      "step   120/20000  loss 4.1234  max 4.3012  val 4.2345  lr 3.00e-04  norm 0.85  12,345 tok/s  MFU 51.6 %  "
      "ETA 1h 23m";
  EXPECT_EQ(format_progress(progress), all);
  EXPECT_EQ(format_progress(progress, all.size()), all);
  EXPECT_EQ(format_progress(progress, all.size() - 1),
            "step   120/20000  loss 4.1234  val 4.2345  lr 3.00e-04  norm 0.85  12,345 tok/s  MFU 51.6 %  ETA 1h 23m");
  EXPECT_EQ(format_progress(progress, 79),
            "step   120/20000  loss 4.1234  val 4.2345  12,345 tok/s  MFU 51.6 %  ETA 1h 23m");
  EXPECT_EQ(format_progress(progress, 60), "step   120/20000  loss 4.1234  val 4.2345  ETA 1h 23m");
  EXPECT_EQ(format_progress(progress, 43), "step   120/20000  loss 4.1234  ETA 1h 23m");
  EXPECT_EQ(format_progress(progress, 30), "step   120/20000  loss 4.1234");
  EXPECT_EQ(format_progress(progress, 21), "step   120/20000  los");
  for (std::size_t columns = 0; columns < 120; ++columns) EXPECT_LE(format_progress(progress, columns).size(), columns);
}

TEST(ScheduleLine, DrawsTheWholeRun) {
  spec::Schedule schedule{spec::ScheduleKind::linear, 80, 20, 0, 0.2};
  EXPECT_EQ(schedule_line(schedule, 3e-4, 8, true), "▃▇█▆▅▄▂▁");
  EXPECT_EQ(schedule_line(schedule, 3e-4, 8, false), "-*#+=~._");
  schedule = {spec::ScheduleKind::constant, 1, 0, 0, 0.2};
  EXPECT_EQ(schedule_line(schedule, 1, 4, false), "####");
  EXPECT_EQ(schedule_line(schedule, 0, 4, false), "____");
}

TEST(FirstLoss, IsNearLnV) {
  spec::Spec spec;
  spec.model.vocab_size = 4096;
  spec.model.hidden_size = 256;
  spec.model.tie_word_embeddings = true;
  spec.init.embedding_std = 0.02;
  const FirstLoss tied = expected_first_loss(spec, 2048);
  EXPECT_NEAR(tied.uniform, 8.3178, 1e-4);
  EXPECT_EQ(first_loss_warning(tied, 8.3704), "");  // the quick start's
  EXPECT_EQ(first_loss_warning(tied, 7.6), "");
  EXPECT_EQ(first_loss_warning(tied, std::nan("")), "");  // reported by the guard
  EXPECT_TRUE(test::has_facts(first_loss_warning(tied, 10.5), {"10.5000", "ln(vocab_size) = 8.3178", "at most"}));
  EXPECT_TRUE(test::has_facts(first_loss_warning(tied, 7.3), {"7.3000", "ln(vocab_size) = 8.3178", "at least"}));
  spec.model.tie_word_embeddings = false;
  spec.init.embedding_std = 1;  // logits of variance 256
  const FirstLoss wide = expected_first_loss(spec, 2048);
  EXPECT_EQ(first_loss_warning(wide, 8.3178 + 128), "");
  EXPECT_NE(first_loss_warning(wide, 8.3178 + 170), "");
  spec.init.embedding_std = 0.02, spec.model.logits_scaling = 0.02;  // the same logits
  EXPECT_EQ(first_loss_warning(expected_first_loss(spec, 2048), 8.3178 + 128), "");
}

TEST(Usage, PeaksAreOfWholeDevicesByTheirNames) {
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3 (sm_90), 79.19 GiB, driver for CUDA 13.0", DType::bf16), 989e12);
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3 (sm_90), 79.19 GiB", DType::f32), 67e12);
  EXPECT_EQ(peak_flops("NVIDIA H200 (sm_90)", DType::bf16), 989e12);
  EXPECT_EQ(peak_flops("NVIDIA H200 NVL (sm_90)", DType::bf16), 835e12);
  EXPECT_EQ(peak_flops("NVIDIA A100-SXM4-40GB (sm_80)", DType::bf16), 312e12);
  EXPECT_EQ(peak_flops("NVIDIA A100 80GB PCIe (sm_80)", DType::bf16), 312e12) << "of a family";
  EXPECT_EQ(peak_flops("NVIDIA L4 (sm_89)", DType::bf16), 121e12);
  EXPECT_EQ(peak_flops("NVIDIA GeForce RTX 4090 Laptop GPU (sm_89)", DType::bf16), std::nullopt);
  EXPECT_EQ(peak_flops("NVIDIA H100 80GB HBM3 MIG 1g.10gb (sm_90)", DType::bf16), std::nullopt);
  EXPECT_EQ(peak_flops("AMD EPYC, 2 threads, avx512_bf16", DType::bf16), std::nullopt);
  EXPECT_EQ(peak_flops("", DType::bf16), std::nullopt);
}

TEST(Usage, ModelFlopsOverThePeakOfAllDevices) {
  // The reference run as published: 65,000 tokens per second of 7.852 GFLOP each on an H100.
  EXPECT_NEAR(utilisation(7.852e9, 65000, 1, 989e12), 0.516, 5e-4);
  EXPECT_NEAR(utilisation(7.852e9, 65000, 2, 989e12), 0.258, 5e-4);
}

TEST(Usage, MemoryOfTheProcess) {
  const std::int64_t before = resident_bytes();
  EXPECT_GT(before, 1 << 20);
  std::vector<char> more(64 << 20, 1);
  EXPECT_GE(resident_bytes(), before + static_cast<std::int64_t>(more.size() / 2));
}

TEST(Clock, CountsFromTheStartOfTheProcess) {
  const double first = process_seconds();
  EXPECT_GE(first, 0);
  EXPECT_LT(first, 600);
  EXPECT_GE(process_seconds(), first);
}

}  // namespace
}  // namespace llmc
