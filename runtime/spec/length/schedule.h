// Learning rate and weight decay as functions of the step.
#pragma once

#include <cstdint>

#include "spec/spec.h"

namespace llmc {

/// Learning rate of step s in [0, steps), `peak` after the warm-up; steps before from_step count as that one:
///   warm-up  peak * (s + 1) / warmup_steps, so that step 0 already learns
///   cosine, linear  from peak at s = warmup_steps to the minimum at s = steps - 1
///   wsd      peak, then linear over the last round(decay_fraction * steps) steps, the minimum at s = steps - 1
///   constant peak
double learning_rate(const spec::Schedule& schedule, double peak, std::int64_t step);

/// Fraction of the weight decay that is left at step s, with d = (s - from_step) / (steps - from_step): 1 up to
/// from_step, 0 at `steps`, which is the step after the last:
///   constant 1
///   linear   1 - d
///   cosine   (1 + cos(pi d)) / 2
double weight_decay_left(const spec::Schedule& schedule, std::int64_t step);

}  // namespace llmc
