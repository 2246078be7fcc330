// Reports a faulty program: prints one message and ends the process.
#pragma once

#include <string>

namespace sim {

/// Differs from every exit code of a trainer (runtime/error.h), so that tests can tell them apart.
constexpr int kReported = 97;

/// Prints "sim: <message>" to stderr and ends the process with kReported, without destructors: the fault may be in a
/// lane, whose stack cannot be unwound.
[[noreturn]] void report(const std::string& message);

}  // namespace sim
