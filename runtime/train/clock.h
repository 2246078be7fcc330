// Seconds since this process started, start-up of the program itself included.
#pragma once

namespace llmc {

/// Steady. The start is known to 0.01 s, differences to nanoseconds.
double process_seconds();

}  // namespace llmc
