// Seconds since this process started, program start-up included.
#pragma once

namespace llmc {

/// Environment variable that a program sets before it becomes a trainer by exec: "PID SECONDS", its process id and the
/// CLOCK_BOOTTIME in seconds. /proc only knows when the process itself started.
inline constexpr char kStartedVariable[] = "LLMC_STARTED";

/// Monotonic. The start is exact to 0.01 s, differences to nanoseconds.
double process_seconds();

}  // namespace llmc
