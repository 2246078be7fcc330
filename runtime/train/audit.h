// The audit of a step's loss: what audit.compute has in fp32 gives it a second time, of the same samples and weights,
// and a difference past audit.bound is said. See docs/reference/guards.md.
#pragma once

#include <cstdint>
#include <string>

#include "comm/rendezvous.h"
#include "data/micro_batch.h"
#include "spec/spec.h"
#include "step/session.h"

namespace llmc {

/// One audit of a step, as metrics.jsonl has it.
struct Audited {
  double loss = 0;     // mean over the step's targets, nats
  double seconds = 0;  // that it took
};

class Audit {
 public:
  explicit Audit(const spec::Audit& values) : values_(values) {}

  /// Whether step `step` (from 1 on) has one: the first, and multiples of audit.every.
  bool due(std::int64_t step) const { return values_.every > 0 && (step == 1 || step % values_.every == 0); }

  /// The loss of a batch that is about to be sent, with nothing before it on its way. Changes no byte that training
  /// reads. Collective.
  Audited run(Session& session, Rendezvous& ranks, const StepBatch& batch) const;

  /// What to warn of, or empty: `training`, the loss of the step, is further than audit.bound from its audit, or one of
  /// them alone is no number; and the audit before it was near, or there was none.
  std::string judge(std::int64_t step, double training, double audited, double lse_max);

 private:
  spec::Audit values_;
  bool apart_ = false;  // as of the last audit
};

}  // namespace llmc
