// Prints a run's description before its first step.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "data/order/forecast.h"
#include "data/order/sources.h"
#include "program/mesh.h"
#include "run/history.h"
#include "step/session.h"
#include "text/console.h"
#include "trainer/options.h"
#include "trainer/startup/values.h"

namespace llmc {

/// Steps that a start is to train.
struct Ahead {
  std::int64_t stop;    // last step
  std::int64_t tokens;  // of all of them
  RunLength phase;      // those of the first phase
};

/// Prints model, device, memory, chosen libraries, data, and the step the run starts from.
void print_header(Console& console, const Session& session, const Device& device, const spec::Spec& values,
                  const Sources& train, const std::filesystem::path& run, const TrainState& state,
                  const std::optional<StartPoint>& start, const Ahead& ahead);

/// Prints how the steps of a phase, or of a run without phases, use each source.
void print_sources(Console& console, const Sources& train, const DataPosition& position, const RunLength& length);

/// Collects everything except spec and data that determines this start's bits.
Environment environment(const ProgramInfo& info, const Device& device, WorldRank self);

/// Reports differences from the previous start, and whether they change bits.
void tell_changes(Console& console, const std::vector<spec::Change>& changed,
                  const std::vector<std::string>& surroundings, bool resumed);

/// Warns if a changed schedule, such as an extended cosine, has another rate for the next step, after `step` steps,
/// than the previous schedule.
void tell_rate(Console& console, const spec::Spec& before, const spec::Spec& run, std::int64_t step);

/// Reports values that differ from the trainer's defaults: kept from the run, or set on the command line.
void tell_differences(Console& console, const Options& options, const StartValues& values);

}  // namespace llmc
