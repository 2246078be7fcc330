// Audits a step's loss: recomputes it from the same samples and weights with the parts named by audit.compute in fp32,
// and warns of a difference above audit.bound. See docs/reference/guards.md.
#pragma once

#include <cstdint>
#include <string>

#include "comm/rendezvous.h"
#include "data/micro_batch.h"
#include "spec/spec.h"
#include "step/session.h"

namespace llmc {

/// One audit, as written to metrics.jsonl.
struct Audited {
  double loss = 0;     // mean over the step's targets, nats
  double seconds = 0;  // duration of the audit
};

class Audit {
 public:
  explicit Audit(const spec::Audit& values) : values_(values) {}

  /// Returns whether step `step` (from 1 on) is audited: the first, and multiples of audit.every.
  bool due(std::int64_t step) const { return values_.every > 0 && (step == 1 || step % values_.every == 0); }

  /// Computes the loss of a batch before it is sent. No step may be in flight. Changes no byte that training reads.
  /// Collective.
  Audited run(Session& session, Rendezvous& ranks, const StepBatch& batch) const;

  /// Returns a warning if `training`, the step's loss, differs from its audit by more than audit.bound, or if only one
  /// of them is finite. Empty otherwise, and if the previous audit already differed.
  std::string judge(std::int64_t step, double training, double audited, double lse_max);

 private:
  spec::Audit values_;
  bool apart_ = false;  // in the last audit
};

}  // namespace llmc
