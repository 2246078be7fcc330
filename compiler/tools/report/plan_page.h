// A plan as one HTML page that needs nothing else: `llmc plan SPEC --html FILE`.
#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace llmc::report {

/// The page: what fills memory, what bounds the step and which key to turn, in words and as charts. Whatever stands in
/// the spec is data in it, never markup or code.
std::string plan_page(const plan::Plan& plan);

}  // namespace llmc::report
