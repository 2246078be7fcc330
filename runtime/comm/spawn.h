// `trainer --ranks N`: starts the ranks of a run on this machine and waits for them.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace llmc {

enum class Starter {
  self,    // this process starts them, with torchrun's variables
  mpirun,  // Open MPI's; cores are divided by OMP_NUM_THREADS unless it is set
};

/// Times after which mpirun is killed. Normally it takes seconds.
struct MpirunLimits {
  std::chrono::milliseconds start{120'000};  // to start a rank
  std::chrono::milliseconds alone{20'000};   // to exit after its last rank has ended, or after a request to stop while
                                             // it has no rank yet
};

/// Runs `ranks` processes of `command` (a program and its arguments). Each output line is prefixed by "[rank R] ".
/// Passes SIGTERM, SIGINT, SIGHUP (unless ignored), SIGUSR1 and SIGUSR2 on to each rank, not to processes in between,
/// once per request (comm/requests.h). Returns when all have exited: 0, or the exit code of the first that failed,
/// whose last lines are repeated; 170 if all failed ranks only waited for another; 128 + n after signal n; 3 if mpirun
/// could start none. `stopped`: receives whether a request to stop was passed on. Throws Failure(toolchain) if nothing
/// can be started, and Failure(does_not_fit) if mpirun has no space for its files.
int spawn_ranks(const std::vector<std::string>& command, int ranks, Starter starter, const MpirunLimits& limits = {},
                bool* stopped = nullptr);

}  // namespace llmc
