// Computes the constants a run needs in its arena before the first step: rotary angles, the optimizer's chunks, the
// rules of initial weights.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"
#include "program/shards.h"

namespace llmc {

/// [sequence_length, 2 * pairs]: each row contains the cosines of position * inverse_frequencies[i], then the sines, or
/// with `interleaved` a cosine and a sine of each pair; all times `scale`, computed in double and rounded once.
std::vector<float> rope_table(std::int64_t sequence_length, std::span<const double> inverse_frequencies,
                              double scale = 1, bool interleaved = false);

/// One rule per parameter.
std::vector<InitRule> init_rules(std::span<const ParameterInfo> parameters);

/// Copies all constants into the arena. Throws Failure(internal) if their sizes differ from the plan's.
void upload_constants(Device& device, std::byte* arena, const ProgramInfo& info, const Shares& shares);

}  // namespace llmc
