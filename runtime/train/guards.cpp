#include "train/guards.h"

#include <fmt/format.h>

#include "train/console.h"
#include "train/together.h"

namespace llmc {

std::string SkipGuard::observe(std::int64_t step, const StepResults& results, const std::string& where) {
  in_a_row_ = results.skipped ? in_a_row_ + 1 : 0;
  last_step_ = step;
  if (!results.skipped) return {};
  if (in_a_row_ == 1) first_where_ = where;
  return fmt::format(
      "step {}: loss {} and gradient norm {} are not both finite{}; the update was skipped ({} in a row, the run stops "
      "at {}); metrics.jsonl has the sample ids",
      step, without_nan_sign(results.loss), without_nan_sign(results.grad_norm), where.empty() ? "" : ", " + where,
      in_a_row_, kLimit);
}

void SkipGuard::check() const {
  if (in_a_row_ < kLimit) return;
  throw SharedFailure(
      Exit::numerics,
      fmt::format(
          "{} updates in a row were skipped because loss or gradients were not finite{}; the weights are those of step "
          "{}; look at the samples in metrics.jsonl, then go on from the newest "
          "checkpoint with a smaller optimizer.lr or optimizer.clip_norm",
          in_a_row_, first_where_.empty() ? "" : ", at first " + first_where_, last_step_ - in_a_row_));
}

}  // namespace llmc
