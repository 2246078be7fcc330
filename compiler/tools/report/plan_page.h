// Prints a plan as a self-contained HTML page: `llmc plan SPEC --html FILE`.
#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// Returns the page: contents of memory, bounds of the step and the key to change, as text and as charts. Strings of
/// the spec are data in it, never markup or code.
std::string plan_page(const plan::Plan& plan);

}  // namespace llmc::report
