// Compares the plans of a run's phases, and sums them up.
#pragma once

#include <span>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// A column for each phase and one for the run: steps, tokens, time, memory, and with a `price` of a device-hour above
/// 0 the price. Below it the keys that change at each border.
std::string phases_text(std::span<const plan::Plan* const> phases, double price);

}  // namespace llmc::report
