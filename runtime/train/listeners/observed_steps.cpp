#include "train/listeners/observed_steps.h"

#include <fmt/format.h>

#include "error.h"

namespace llmc {

LaunchListener* TimedSteps::launches(std::int64_t step) {
  if (!timeline_ || !eager(step)) return nullptr;
  timeline_->begin_step(step - 1);
  return timeline_;
}

void TimedSteps::write() try {
  ended_ = true;
  if (timeline_) timeline_->write(session_.allocated_bytes());
} catch (const Failure& failure) {
  console_.warning(fmt::format("{}. Training continues without a timeline", failure.what()));
}

}  // namespace llmc
