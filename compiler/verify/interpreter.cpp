#include "compiler/verify/interpreter.h"

#include <iterator>

#include "compiler/ops/op.h"
#include "compiler/verify/rules.h"
#include "error.h"

namespace llmc::verify {

using graph::OpKind;

namespace {

/// What the interpreter knows of a kind of op.
struct Row {
  ops::Stated<OpKind> kind;
  ops::Stated<void (*)(Run&)> rule;  // null: between ranks
  Inputs changes = 0;
};

constexpr Inputs input(unsigned i) { return 1u << i; }
constexpr void (*kBetweenRanks)(Run&) = nullptr;

/// In the order of OpKind.
constexpr Row kRows[] = {
    {OpKind::embedding, embedding},
    {OpKind::rms_norm, rms_norm},
    {OpKind::linear, linear},
    {OpKind::rope, rope},
    {OpKind::qk_norm_rope, qk_norm_rope},
    {OpKind::attention, attention},
    {OpKind::swiglu, swiglu},
    {OpKind::add, add},
    {OpKind::cross_entropy, cross_entropy, input(0)},  // the logits, by their gradient
    {OpKind::loss_sum, loss_sum},
    {OpKind::gather_rows, gather_rows},
    {OpKind::audit_loss, audit_loss},
    {OpKind::embedding_backward, embedding_backward},
    {OpKind::rms_norm_backward, rms_norm_backward},
    {OpKind::linear_dgrad, linear_dgrad},
    {OpKind::linear_wgrad, linear_wgrad},
    {OpKind::column_sum, column_sum},
    {OpKind::column_reduce, column_reduce},
    {OpKind::rope_backward, rope_backward},
    {OpKind::qk_norm_rope_backward, qk_norm_rope_backward},
    {OpKind::attention_backward, attention_backward},
    {OpKind::swiglu_backward, swiglu_backward},
    {OpKind::cross_entropy_backward, cross_entropy_backward},
    {OpKind::zero, zero},
    {OpKind::gradient_norm, gradient_norm},
    {OpKind::gradient_clip, gradient_clip},
    {OpKind::adamw, adamw, input(1) | input(6) | input(7)},  // weights and both moments
    {OpKind::parameter_norms, parameter_norms},
    {OpKind::initialise, initialise},
    {OpKind::cast, cast},
    {OpKind::all_reduce, kBetweenRanks},
    {OpKind::reduce_scatter, kBetweenRanks},
    {OpKind::all_gather, kBetweenRanks},
    {OpKind::broadcast, kBetweenRanks},
    {OpKind::sum_results, kBetweenRanks},
    {OpKind::to_wire, kBetweenRanks},
    {OpKind::from_wire, kBetweenRanks},
};
static_assert(std::size(kRows) == graph::kOpKinds, "a row for each OpKind");
constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(kRows); ++i)
    if (static_cast<std::size_t>(kRows[i].kind.value) != i) return false;
  return true;
}
static_assert(in_order());

const Row& row_of(OpKind kind) { return kRows[static_cast<std::size_t>(kind)]; }

}  // namespace

void interpret(Run& run) {
  const auto rule = row_of(run.op.kind).rule.value;
  if (!rule) throw Failure(Exit::internal, "op " + run.op.label() + " moves something between ranks, and there is one");
  rule(run);
}

Inputs changed_inputs(OpKind kind) { return row_of(kind).changes; }

}  // namespace llmc::verify
