// How the simulator says that a program is wrong: one message, and the process ends.
#pragma once

#include <string>

namespace sim {

/// No exit code of a trainer (runtime/error.h), so that a test can tell the two.
constexpr int kReported = 97;

/// Prints "sim: <message>" to stderr and ends the process with kReported, without destructors: the fault may be in a
/// lane, on whose stack nothing can be unwound.
[[noreturn]] void report(const std::string& message);

}  // namespace sim
