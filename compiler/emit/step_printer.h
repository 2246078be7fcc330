// Prints the host code of the step: one function for each region, every pointer at its planned offset, every launch in
// order.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Selects whether the step stops around each op, for `llmc verify` (runtime/step/probe.h).
enum class Probes { none, around_ops };

struct StepSources {
  std::string step;    // step.cpp (cpu) or step.cu (cuda): defines Step and the functions of Program
  std::string pieces;  // kPiecesFile, included at the end of the step: run_piece(), which `trainer calibrate` calls
};
constexpr const char* kPiecesFile = "step_pieces.h";

StepSources print_step(const plan::Plan& plan, Probes probes);

/// Returns the number of an op in a step to verify: the count of ops before it in all regions.
std::int32_t op_number(const graph::Graph& graph, std::size_t region, std::size_t op);

}  // namespace llmc::emit
