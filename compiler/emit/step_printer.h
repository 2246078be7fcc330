// Prints the host code of the step: one function a region, every pointer at its planned offset, every launch in order.
#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace llmc::emit {

/// step.cpp (cpu) or step.cu (cuda): defines Step and the functions of Program.
std::string print_step(const plan::Plan& plan);

}  // namespace llmc::emit
