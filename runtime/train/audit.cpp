#include "train/audit.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <utility>

#include "host/clock.h"
#include "text/console.h"

namespace llmc {

Audited Audit::run(Session& session, Rendezvous& ranks, const StepBatch& batch) const {
  const double begin = process_seconds();
  const double own = session.audit(batch, values_.compute == spec::AuditCompute::forward);
  double sum = 0;  // in rank order
  for (const std::string& text : ranks.all_gather({reinterpret_cast<const char*>(&own), sizeof own})) {
    double part = 0;
    std::memcpy(&part, text.data(), sizeof part);
    sum += part;
  }
  return {sum / static_cast<double>(batch.target_count), process_seconds() - begin};
}

std::string Audit::judge(std::int64_t step, double training, double audited, double lse_max) {
  const double difference = training - audited;
  const bool numbers = std::isfinite(training) || std::isfinite(audited);  // if neither is finite, the guards report it
  const bool apart = numbers && !(std::abs(difference) <= values_.bound);
  if (apart == std::exchange(apart_, apart) || !apart) return "";
  return fmt::format(
      "step {}: the loss is {:.6g}, but {:.6g} when recomputed in fp32 (audit.compute: {}): a difference of {:+.3g} "
      "nats, where audit.bound is {:g}. The reported loss is not reliable. Likely causes: sums computed in too few "
      "bits (check whether precision.compute: fp32 agrees with the audit), logits too large for the format of "
      "activations (the largest "
      "log-sum-exp is {:.4g}), or memory that returns wrong values. This warning is repeated only after a difference "
      "within the bound",
      step, without_nan_sign(training), without_nan_sign(audited),
      values_.compute == spec::AuditCompute::forward ? "forward" : "logits", without_nan_sign(difference),
      values_.bound, without_nan_sign(lse_max));
}

}  // namespace llmc
