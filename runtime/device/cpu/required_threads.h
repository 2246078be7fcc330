// Checks that the system grants threads to a library that would otherwise end the process.
#pragma once

namespace llmc {

/// Starts `count` threads beside this one, and ends them. Throws Failure(does_not_fit) with the number that the system
/// grants if it grants fewer (ulimit -u, pids.max).
void require_threads(int count);

}  // namespace llmc
