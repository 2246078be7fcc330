// Compares two plans side by side: memory by section, time by kernel or product, choices.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// Returns "  name  before -> after  change %", where there was something before; the name in so many columns.
/// show(value) prints a value.
std::string change_row(const std::string& name, int width, double before, double after, const auto& show) {
  const std::string percent = before == 0 ? "" : fmt::format("  {:+.1f} %", 100 * (after - before) / before);
  return fmt::format("  {:<{}} {:>12} -> {:>12}{}\n", name, width, show(before), show(after), percent);
}

/// Prints the arena's sections and the launches whose time in a step differs most. Names the devices if the plans are
/// for different ones.
std::string side_by_side_text(const plan::Plan& a, const plan::Plan& b);

/// Returns {"choice": {before, after}, "step_seconds": ..., "memory": [{name, before, after}], "time": [{runs, before,
/// after}]}: bytes, and seconds of a step; 0 for items that one plan lacks.
nlohmann::ordered_json side_by_side_json(const plan::Plan& a, const plan::Plan& b);

}  // namespace llmc::report
