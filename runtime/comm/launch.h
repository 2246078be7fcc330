// Who started this process, and as which of how many: the variables of launchers.
#pragma once

#include <functional>
#include <string>

namespace llmc {

struct Launch {
  int rank = 0, world_size = 1;
  int local_rank = 0;       // among the ranks of this machine
  std::string by;           // "torchrun", "Open MPI", "PMI", "SLURM"; empty: nobody, a process alone
  std::string host;         // where rank 0 listens, a name or an address; empty: MPI tells (rendezvous.h)
  int port = 0;             // 0 where host is empty
  std::string id;           // what this run is called; ranks of another one are refused. May be empty
  std::string fingerprint;  // of the trainer, where it is known; ranks with another one are refused
};

/// Reads what the launcher left. `variable` is getenv, or a map in tests; an empty value is none. The first of these
/// wins: torchrun (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT), Open MPI, PMI, SLURM, none. Throws
/// Failure(usage) with the variables and their values where two launchers disagree, where a value is nonsense and where
/// one is missing.
///
/// torchrun's store listens at MASTER_PORT on rank 0's machine, so rank 0 takes the port after it. MASTER_ADDR and
/// MASTER_PORT also count beside MPI's variables. SLURM's count only in a step that srun started (SLURM_STEP_ID): a
/// batch script and an interactive shell have the allocation's SLURM_NTASKS, and are one process.
Launch find_launch(const std::function<const char*(const char*)>& variable);

/// The first host of SLURM's list: "a[03-05,7]n[1-2],b" is "a03n1". Throws Failure(usage) where it is none.
std::string first_slurm_host(const std::string& list);

}  // namespace llmc
