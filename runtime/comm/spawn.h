// `trainer --ranks N`: starts the ranks of a run on this machine and stays with them to the end.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace llmc {

enum class Starter {
  self,    // this process starts them, with torchrun's variables
  mpirun,  // Open MPI's, with the cores shared out by OMP_NUM_THREADS unless it is set
};

/// How long an mpirun may run when its ranks have ended, or without a rank when it was asked to stop. It takes four
/// seconds to end after its ranks.
inline constexpr std::chrono::milliseconds kMpirunAlone{20'000};

/// Runs `ranks` processes of `command` (a program and its arguments). Each line that one prints comes out with
/// "[rank R] " before it. SIGTERM, SIGINT, SIGHUP (unless it is ignored), SIGUSR1 and SIGUSR2 are passed on to each
/// rank, and to no process between, once for a request (comm/requests.h). Returns their exit code when all have ended:
/// 0, or that of the first that failed, whose last lines are repeated; 170, of ranks that only waited for another,
/// where no rank has a code of its own; 128 + n after signal n. Throws Failure(toolchain) where nothing can be started,
/// and Failure(does_not_fit) where mpirun has no room for its files.
int spawn_ranks(const std::vector<std::string>& command, int ranks, Starter starter,
                std::chrono::milliseconds mpirun_alone = kMpirunAlone);

}  // namespace llmc
