// The learning rate as a function of the step.
#pragma once

#include <cstdint>

namespace llmc {

enum class ScheduleKind { constant, linear, cosine, wsd };

struct Schedule {
  ScheduleKind kind = ScheduleKind::cosine;
  std::int64_t steps = 0;         // of the whole run
  std::int64_t warmup_steps = 0;  // less than steps
  double min_lr_ratio = 0;        // last learning rate as a part of the peak
  double decay_fraction = 0;      // wsd: the last part of the steps, in which the rate falls
};

/// Learning rate of step s in [0, steps), `peak` after the warm-up:
///   warm-up  peak * (s + 1) / warmup_steps, so that step 0 already learns
///   cosine, linear  from peak at s = warmup_steps to the minimum at s = steps - 1
///   wsd      peak, then linear over the last round(decay_fraction * steps) steps, the minimum at s = steps - 1
///   constant peak
double learning_rate(const Schedule& schedule, double peak, std::int64_t step);

}  // namespace llmc
