// Prints the CMakeLists.txt of an emitted project.
#pragma once

#include <string>

#include "compiler/plan/plan.h"

namespace llmc::emit {

/// Prints a build without llmc: from the runtime's sources of a bundle, or of LLMC_RUNTIME.
std::string print_cmake(const plan::Plan& plan);

}  // namespace llmc::emit
