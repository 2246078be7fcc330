#include "spec/length/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace llmc {

using spec::ScheduleKind;

double learning_rate(const spec::Schedule& whole, double peak, std::int64_t step_of_run) {
  // Below, steps count from the start of the schedule.
  spec::Schedule schedule = whole;
  schedule.steps -= whole.from_step;
  const std::int64_t step = std::max<std::int64_t>(step_of_run - whole.from_step, 0);
  if (step < schedule.warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(schedule.warmup_steps);
  const double minimum = peak * schedule.min_lr_ratio;
  const std::int64_t last = schedule.steps - 1;
  switch (schedule.kind) {
    case ScheduleKind::constant: return peak;
    case ScheduleKind::linear:
    case ScheduleKind::cosine: {
      const std::int64_t span = last - schedule.warmup_steps;
      if (span <= 0) return peak;  // with only one step after warm-up there is no decay
      const double done = static_cast<double>(step - schedule.warmup_steps) / static_cast<double>(span);
      const double left =
          schedule.kind == ScheduleKind::linear ? 1 - done : 0.5 * (1 + std::cos(std::numbers::pi * done));
      return minimum + (peak - minimum) * left;
    }
    case ScheduleKind::wsd: {
      const auto wanted = std::llround(schedule.decay_fraction * static_cast<double>(schedule.steps));
      const std::int64_t begin = std::max<std::int64_t>(schedule.warmup_steps, schedule.steps - std::max(wanted, 1LL));
      if (step < begin) return peak;
      return peak -
             (peak - minimum) * static_cast<double>(step - begin + 1) / static_cast<double>(schedule.steps - begin);
    }
  }
  return peak;
}

double weight_decay_left(const spec::Schedule& schedule, std::int64_t step) {
  const double done = static_cast<double>(std::max<std::int64_t>(step - schedule.from_step, 0)) /
                      static_cast<double>(schedule.steps - schedule.from_step);
  switch (schedule.weight_decay) {
    case spec::DecaySchedule::constant: return 1;
    case spec::DecaySchedule::linear: return 1 - done;
    case spec::DecaySchedule::cosine: return 0.5 * (1 + std::cos(std::numbers::pi * done));
  }
  return 1;
}

}  // namespace llmc
