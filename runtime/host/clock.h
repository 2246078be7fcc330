// Seconds since this process started, start-up of the program itself included.
#pragma once

namespace llmc {

/// Environment variable in which a program that becomes a trainer by exec leaves "PID SECONDS": its process id and the
/// time then, CLOCK_BOOTTIME in seconds. The system keeps the process's own start only.
inline constexpr char kStartedVariable[] = "LLMC_STARTED";

/// Steady. The start is known to 0.01 s, differences to nanoseconds.
double process_seconds();

}  // namespace llmc
