// Compares the plans of a run's phases, and sums them up.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// Sums of a run's phases.
struct WholeRun {
  double tokens = 0, seconds = 0, device_hours = 0;
  std::size_t memory = 0;            // bytes of a device, at most
  std::size_t kept_borders = 0;      // checkpoints at which another trainer takes over
  std::size_t most_checkpoints = 0;  // on disk at a time, with the one that is being written
  std::size_t checkpoint_bytes = 0;  // of one
};

/// `phases`: plans with the trainers of all phases (cli/trainers.h).
WholeRun sum_phases(std::span<const plan::Plan* const> phases);

/// A column for each phase and one for the run: steps, trainer, tokens, time, memory, disk, and with a `price` of a
/// device-hour above 0 the price. Below it the run in one line, and the keys that change at each border.
std::string phases_text(std::span<const plan::Plan* const> phases, double price);

/// The sums as JSON, and the plan of each phase.
nlohmann::ordered_json phases_plan_json(std::span<const plan::Plan* const> phases);

}  // namespace llmc::report
