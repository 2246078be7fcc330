// The phases of a spec: partial specs over it, one after the other, each with the step that ends it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "spec/diagnostics.h"
#include "spec/node.h"
#include "spec/resolved.h"

namespace llmc::spec {

inline constexpr std::size_t kMostPhases = 64;

/// An entry of `phases`.
struct PhaseNode {
  Node over;   // what differs, without `until`
  Node until;  // "90%" or a step
};

/// Removes `phases` from a spec's tree and returns its entries; none if there is no such key. Reports what is wrong
/// with the list: entries that are no maps or have no `until`, more than kMostPhases, keys that a phase must not have.
std::vector<PhaseNode> take_phases(Node& root, std::vector<Diagnostic>& diagnostics);

/// Steps of a run whose phases share out schedule.tokens over batches of different sizes: each ends with the step
/// nearest to its share of the tokens, and the last one with the step that contains the rest. Replaces the nodes'
/// borders by those steps. Nothing if the spec has no such budget or the batches are equal, and where a border is
/// wrong, which it reports.
std::optional<std::int64_t> steps_of_ramp(std::vector<PhaseNode>& nodes, const std::vector<Spec>& phases,
                                          std::vector<Diagnostic>& diagnostics);

/// Gives each resolved spec its number and its steps, and lists the keys that differ from the phase before. Reports
/// borders that do not ascend or do not end with the last step, and keys that must not change during a run.
void join_phases(const std::vector<PhaseNode>& nodes, std::vector<Resolved>& phases,
                 std::vector<Diagnostic>& diagnostics);

}  // namespace llmc::spec
