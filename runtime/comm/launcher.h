// Finds out the launcher of this process, its rank and the number of ranks, from the launcher's variables.
#pragma once

#include <functional>
#include <span>
#include <string>

namespace llmc {

struct LauncherInfo {
  int rank = 0, world_size = 1;
  int local_rank = 0;       // among the ranks of this machine
  std::string by;           // "torchrun", "Open MPI", "PMI", "SLURM"; empty: no launcher, a single process
  std::string host;         // name or address where rank 0 listens; empty: sent by MPI (rendezvous.h)
  int port = 0;             // 0 if host is empty
  std::string id;           // id of this run; ranks of another run are refused. May be empty
  std::string fingerprint;  // of the trainer, if known; ranks with another one are refused
};

/// Reads the launcher's variables. `variable` is getenv, or a map in tests; an empty value counts as unset. The first
/// of these wins: torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), Open MPI, PMI, SLURM, none. Throws
/// Failure(usage) with variables and values if two launchers disagree, a value is malformed or one is missing.
///
/// torchrun's store listens at MASTER_PORT on rank 0's machine, so rank 0 uses the next port. MASTER_ADDR and
/// MASTER_PORT also apply with the other launchers' variables; in a step of SLURM, MASTER_PORT alone too. SLURM's apply
/// only in a step started by srun (SLURM_STEP_ID): a batch script and an interactive shell have the allocation's
/// SLURM_NTASKS, but are one process.
LauncherInfo find_launcher(const std::function<const char*(const char*)>& variable);

/// Variables of the launchers other than Open MPI. An mpirun that starts ranks of its own must not pass them on.
std::span<const char* const> variables_of_other_launchers();

/// First host of SLURM's list: "a[03-05,7]n[1-2],b" gives "a03n1". Throws Failure(usage) if it is malformed.
std::string first_slurm_host(const std::string& list);

}  // namespace llmc
