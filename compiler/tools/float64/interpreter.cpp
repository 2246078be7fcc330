#include "compiler/tools/float64/interpreter.h"

#include "compiler/ops/op.h"
#include "compiler/tools/float64/rules.h"
#include "error.h"

namespace llmc::float64 {

void interpret(OpRun& run) {
#define LLMC_RULE(kind, row) kind,
  static constexpr void (*kRules[])(OpRun&) = {LLMC_COMPUTED_OPS(LLMC_RULE)};
#undef LLMC_RULE
  if (graph::is_between_ranks(run.op.kind))
    throw Failure(Exit::internal, "op " + run.op.label() + " communicates between ranks, but there is one rank");
  const auto rule = kRules[static_cast<std::size_t>(run.op.kind)];
  run.op.quantised.empty() ? rule(run) : quantised(run, rule);
}

}  // namespace llmc::float64
