// What a run says of itself before its first step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/shards.h"
#include "program/mesh.h"
#include "run/history.h"
#include "step/session.h"
#include "text/console.h"
#include "trainer/options.h"
#include "trainer/startup/values.h"

namespace llmc {

/// Model, device, memory, libraries' choices, data and where the run stands.
void print_header(Console& console, const Session& session, const Device& device, const spec::Spec& values,
                  const TokenShards& train, std::int64_t samples, const std::filesystem::path& run,
                  const TrainState& state, const std::optional<StartPoint>& start, std::int64_t stop);

/// What this start has of all that decides bits beside spec and data.
Environment environment(const ProgramInfo& info, const Device& device, WorldRank self);

/// What is other than at the start before, and whether bits differ because of it.
void tell_changes(Console& console, const std::vector<spec::Change>& changed,
                  const std::vector<std::string>& surroundings, bool resumed);

/// Warns where a schedule that was changed, such as a cosine that was extended, has another rate at the step that the
/// run goes on with, after `step` steps, than the one before would have had.
void tell_rate(Console& console, const spec::Spec& before, const spec::Spec& run, std::int64_t step);

/// What this run has in another value than its trainer: kept from the run, or of the command line.
void tell_differences(Console& console, const Options& options, const StartValues& values);

}  // namespace llmc
