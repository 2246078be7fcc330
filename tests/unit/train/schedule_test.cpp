#include "spec/length/schedule.h"

#include <gtest/gtest.h>

#include <cmath>

namespace llmc {

using spec::Schedule;
using spec::ScheduleKind;

namespace {

constexpr double kPeak = 2.0;

double rate(ScheduleKind kind, std::int64_t step) { return learning_rate({kind, 101, 10, 0.1, 0.2}, kPeak, step); }

TEST(Schedule, WarmUpStartsAboveZeroAndEndsAtThePeak) {
  for (auto kind : {ScheduleKind::constant, ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd}) {
    EXPECT_DOUBLE_EQ(rate(kind, 0), kPeak * 0.1);
    EXPECT_DOUBLE_EQ(rate(kind, 4), kPeak * 0.5);
    EXPECT_DOUBLE_EQ(rate(kind, 9), kPeak);
    EXPECT_DOUBLE_EQ(rate(kind, 10), kPeak);
  }
}

TEST(Schedule, MinimumIsAtTheLastStep) {
  for (auto kind : {ScheduleKind::linear, ScheduleKind::cosine, ScheduleKind::wsd}) {
    EXPECT_NEAR(rate(kind, 100), 0.1 * kPeak, 1e-15);
    EXPECT_GT(rate(kind, 99), 0.1 * kPeak + 1e-6);
  }
  EXPECT_DOUBLE_EQ(rate(ScheduleKind::constant, 100), kPeak);
}

TEST(Schedule, HalfWay) {
  // 45 of 90 steps after the warm-up: both are at the mean of peak and minimum.
  EXPECT_NEAR(rate(ScheduleKind::cosine, 55), 0.55 * kPeak, 1e-15);
  EXPECT_NEAR(rate(ScheduleKind::linear, 55), 0.55 * kPeak, 1e-15);
  // A quarter: the cosine is above the line by half of sqrt(1/2) - 1/2.
  EXPECT_NEAR(learning_rate({ScheduleKind::cosine, 101, 0, 0, 0}, 1, 25), 0.5 + 0.5 * std::sqrt(0.5), 1e-15);
}

TEST(Schedule, WsdHoldsThenFallsOverTheDecayFraction) {
  // 20 % of 101 steps are 20: steps 81 to 100.
  EXPECT_DOUBLE_EQ(rate(ScheduleKind::wsd, 80), kPeak);
  EXPECT_NEAR(rate(ScheduleKind::wsd, 81), kPeak - 0.9 * kPeak / 20, 1e-15);
  EXPECT_NEAR(rate(ScheduleKind::wsd, 90), kPeak - 0.9 * kPeak * 10 / 20, 1e-15);
}

TEST(Schedule, WeightDecayFallsToNothingAfterTheLastStep) {
  Schedule schedule{.steps = 140, .warmup_steps = 10, .from_step = 40};
  const auto left = [&](spec::DecaySchedule kind, std::int64_t step) {
    schedule.weight_decay = kind;
    return weight_decay_left(schedule, step);
  };
  for (const auto kind : {spec::DecaySchedule::linear, spec::DecaySchedule::cosine}) {
    EXPECT_DOUBLE_EQ(left(kind, 40), 1);
    EXPECT_NEAR(left(kind, 90), 0.5, 1e-15);
    EXPECT_GT(left(kind, 139), 0);
    EXPECT_NEAR(left(kind, 140), 0, 1e-15);
  }
  EXPECT_DOUBLE_EQ(left(spec::DecaySchedule::linear, 65), 0.75);
  EXPECT_NEAR(left(spec::DecaySchedule::cosine, 65), 0.5 + 0.5 * std::sqrt(0.5), 1e-15);
  EXPECT_EQ(left(spec::DecaySchedule::constant, 139), 1);
}

TEST(Schedule, StepsBeforeItsBeginningCountAsItsFirst) {
  for (const std::int64_t warmup : {0, 5}) {
    const Schedule schedule{
        .steps = 60, .warmup_steps = warmup, .from_step = 11, .weight_decay = spec::DecaySchedule::linear};
    EXPECT_EQ(learning_rate(schedule, kPeak, 8), learning_rate(schedule, kPeak, 11));
    EXPECT_EQ(weight_decay_left(schedule, 8), 1);
  }
}

TEST(Schedule, DegenerateLengthsStillLearn) {
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::cosine, 1, 0, 0, 0}, kPeak, 0), kPeak);
  EXPECT_DOUBLE_EQ(learning_rate({ScheduleKind::linear, 2, 1, 0, 0}, kPeak, 1), kPeak);
}

}  // namespace
}  // namespace llmc
