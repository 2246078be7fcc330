#include "comm/launcher.h"

#include <cstdint>
#include <limits>
#include <optional>

#include "error.h"
#include "program/shards.h"

namespace llmc {
namespace {

/// Reads environment variables, and formats them for messages.
class Variables {
 public:
  explicit Variables(const std::function<const char*(const char*)>& get) : get_(get) {}

  std::optional<std::string> text(const char* name) const {
    const char* value = get_(name);
    if (!value || !*value) return std::nullopt;
    return value;
  }
  bool has(const char* name) const { return text(name).has_value(); }

  /// The value as a number from `low` to `high`.
  std::optional<std::int64_t> number(const char* name, std::int64_t low, std::int64_t high) const {
    const std::optional<std::string> value = text(name);
    if (!value) return std::nullopt;
    std::int64_t result = 0;
    bool fits = value->size() <= 18;  // so many digits cannot overflow
    for (const char c : *value) {
      fits = fits && c >= '0' && c <= '9';
      if (fits) result = result * 10 + (c - '0');
    }
    if (!fits || result < low || result > high)
      throw Failure(Exit::usage, shown(name) + " is not a number from " + std::to_string(low) + " to " +
                                     std::to_string(high) + ". Correct it or unset it");
    return result;
  }

  /// "RANK=3"
  std::string shown(const char* name) const { return std::string(name) + "=" + text(name).value_or(""); }

 private:
  const std::function<const char*(const char*)>& get_;
};

constexpr const char* kUnnamed = "none";  // torchrun's id of a run without --rdzv-id

/// Variables of one launcher.
struct Source {
  const char *by, *rank, *size, *local;
};
constexpr Source kTorchrun{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"};
constexpr Source kOpenMpi{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"};
constexpr Source kPmi{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"};
constexpr Source kSlurm{"SLURM", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"};

/// Rank, size and local rank, if the launcher set them.
std::optional<LauncherInfo> read_source(const Variables& variables, const Source& source) {
  const bool rank_set = variables.has(source.rank), size_set = variables.has(source.size);
  if (!rank_set && !size_set) return std::nullopt;
  if (!rank_set || !size_set) {
    const char* there = rank_set ? source.rank : source.size;
    throw Failure(Exit::usage, variables.shown(there) + " is set without " + (rank_set ? source.size : source.rank) +
                                   ", but " + source.by + " sets both. Unset " + there + " for a run of one process");
  }
  LauncherInfo launch;
  launch.by = source.by;
  launch.world_size = static_cast<int>(*variables.number(source.size, 1, kMostRanks));
  launch.rank = static_cast<int>(*variables.number(source.rank, 0, kMostRanks - 1));
  if (launch.rank >= launch.world_size)
    throw Failure(Exit::usage, variables.shown(source.rank) + " is not below " + variables.shown(source.size) +
                                   ". Ranks count from 0");
  launch.local_rank = static_cast<int>(variables.number(source.local, 0, kMostRanks - 1).value_or(0));
  if (launch.local_rank >= launch.world_size)
    throw Failure(Exit::usage, variables.shown(source.local) + " is not below " + variables.shown(source.size));
  return launch;
}

void check_agreement(const Variables& variables, const Source& taken, const LauncherInfo& launch, const Source& other) {
  const std::optional<LauncherInfo> found = read_source(variables, other);
  if (!found || (found->rank == launch.rank && found->world_size == launch.world_size)) return;
  throw Failure(Exit::usage, variables.shown(taken.rank) + ", " + variables.shown(taken.size) + " (" + taken.by +
                                 ") and " + variables.shown(other.rank) + ", " + variables.shown(other.size) + " (" +
                                 other.by + ") disagree. Unset those of the launcher that did not start this process");
}

/// Returns whether srun started this process as a task. A batch script and an interactive step have step ids past the
/// ordinary ones, if any, and a shell under `srun --pty` is one process whatever the step requested.
bool is_slurm_task(const Variables& variables) {
  constexpr std::int64_t kFirstSpecialStep = 0xfffffff0;
  if (variables.has("SLURM_PTY_PORT")) return false;
  const auto step = variables.number("SLURM_STEP_ID", 0, std::numeric_limits<std::uint32_t>::max());
  return step && *step < kFirstSpecialStep;
}

/// Sets the local rank from SLURM's if the launcher's own variables have none, as with srun --mpi=pmi2 or where a
/// script sets RANK from SLURM_PROCID. Only of a step that counts the same ranks.
void take_slurm_local_rank(const Variables& variables, const Source& source, LauncherInfo& launch) {
  if (variables.has(source.local) || !variables.has(kSlurm.rank) || !variables.has(kSlurm.size)) return;
  const std::optional<LauncherInfo> task = read_source(variables, kSlurm);
  if (task && task->rank == launch.rank && task->world_size == launch.world_size) launch.local_rank = task->local_rank;
}

/// Sets the host from SLURM's list, and the port after MASTER_PORT if that is set, else one that concurrent jobs do not
/// use: below the ports that systems assign themselves.
void take_slurm_address(const Variables& variables, LauncherInfo& launch) {
  const std::optional<std::string> hosts = variables.text("SLURM_STEP_NODELIST");
  constexpr std::int64_t kMaxId = std::numeric_limits<std::uint32_t>::max();
  const auto job = variables.number("SLURM_JOB_ID", 0, kMaxId);
  if (!hosts || !job)
    throw Failure(Exit::usage, std::string("SLURM_STEP_ID is set without ") +
                                   (hosts ? "SLURM_JOB_ID" : "SLURM_STEP_NODELIST") +
                                   ", but srun sets both. Start the trainer with srun");
  const std::int64_t step = variables.number("SLURM_STEP_ID", 0, kMaxId).value_or(0);
  launch.host = first_slurm_host(*hosts);
  const auto master = variables.number("MASTER_PORT", 1, 65534);
  launch.port = static_cast<int>(master ? *master + 1 : 10000 + (*job + 1009 * step) % 20000);
}

/// Sets the address from MASTER_ADDR and MASTER_PORT; returns whether they exist.
bool take_master_address(const Variables& variables, LauncherInfo& launch) {
  const std::optional<std::string> host = variables.text("MASTER_ADDR");
  const auto port = variables.number("MASTER_PORT", 1, 65534);
  if (!host || !port) return false;
  launch.host = *host;
  launch.port = static_cast<int>(*port) + 1;
  return true;
}

}  // namespace

LauncherInfo find_launcher(const std::function<const char*(const char*)>& variable) {
  const Variables variables(variable);
  const bool slurm_task = is_slurm_task(variables);
  const std::string slurm_id =
      slurm_task ? variables.text("SLURM_JOB_ID").value_or("") + "." + *variables.text("SLURM_STEP_ID") : "";

  if (std::optional<LauncherInfo> launch = read_source(variables, kTorchrun)) {
    if (slurm_task) take_slurm_local_rank(variables, kTorchrun, *launch);
    // Set only by torchrun itself. mpirun or srun may have started it once per machine, and then count machines.
    const std::optional<std::string> elastic = variables.text("TORCHELASTIC_RUN_ID");
    if (elastic && *elastic != kUnnamed) launch->id = *elastic;
    if (!elastic) {
      check_agreement(variables, kTorchrun, *launch, kOpenMpi);
      if (!slurm_task) check_agreement(variables, kTorchrun, *launch, kPmi);
    }
    if (launch->world_size > 1 && !take_master_address(variables, *launch))
      throw Failure(Exit::usage, variables.shown(kTorchrun.size) + " is set without " +
                                     (variables.has("MASTER_ADDR") ? "MASTER_PORT" : "MASTER_ADDR") +
                                     ". Both are needed to find rank 0, and torchrun sets both");
    return *launch;
  }
  if (std::optional<LauncherInfo> launch = read_source(variables, kOpenMpi)) {
    // In a SLURM step, srun's own PMI variables count the machines that Open MPI's daemons run on.
    if (!slurm_task) check_agreement(variables, kOpenMpi, *launch, kPmi);
    if (launch->world_size > 1) take_master_address(variables, *launch);
    return *launch;
  }
  if (std::optional<LauncherInfo> launch = read_source(variables, kPmi)) {
    if (launch->world_size > 1 && !take_master_address(variables, *launch)) {
      if (!slurm_task)
        throw Failure(Exit::usage, variables.shown(kPmi.size) +
                                       " is set, but the address of rank 0 is not. Set MASTER_ADDR and MASTER_PORT, or "
                                       "start the trainer with Open MPI's mpirun, torchrun or srun");
      take_slurm_address(variables, *launch);
    }
    if (slurm_task) take_slurm_local_rank(variables, kPmi, *launch);
    launch->id = slurm_id;
    return *launch;
  }
  if (slurm_task) {
    if (std::optional<LauncherInfo> launch = read_source(variables, kSlurm)) {
      const auto tasks = variables.number("SLURM_STEP_NUM_TASKS", 1, kMostRanks);
      if (tasks && *tasks != launch->world_size)
        throw Failure(Exit::usage, variables.shown(kSlurm.size) + " and " + variables.shown("SLURM_STEP_NUM_TASKS") +
                                       " disagree. Leave both as srun sets them");
      if (launch->world_size > 1 && !take_master_address(variables, *launch)) take_slurm_address(variables, *launch);
      launch->id = slurm_id;
      return *launch;
    }
  }
  return {};
}

std::span<const char* const> variables_of_other_launchers() {
  static constexpr const char* kNames[] = {kTorchrun.rank, kTorchrun.size,        kTorchrun.local, "MASTER_ADDR",
                                           "MASTER_PORT",  "TORCHELASTIC_RUN_ID", kPmi.rank,       kPmi.size,
                                           kPmi.local,     kSlurm.rank,           kSlurm.size,     kSlurm.local};
  return kNames;
}

std::string first_slurm_host(const std::string& list) {
  std::string host;
  for (std::size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const std::size_t end = list.find(']', i);
    const std::size_t first = list.find_first_of(",-]", i);
    if (end == std::string::npos || first == i + 1) {
      host.clear();
      break;
    }
    host += list.substr(i + 1, first - i - 1);
    i = end;
  }
  if (host.empty() || host.find_first_of(" ]/:") != std::string::npos || host.size() > 255)
    throw Failure(Exit::usage, "SLURM_STEP_NODELIST=" + list + " names no first host. Leave it as srun sets it");
  return host;
}

}  // namespace llmc
