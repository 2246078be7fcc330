// A process as one rank of its launch: its options, its program, its files, and its device.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "comm/collectives.h"
#include "comm/launcher.h"
#include "comm/rendezvous.h"
#include "comm/together.h"
#include "data/loader.h"
#include "device/device.h"
#include "program/mesh.h"
#include "program/program.h"
#include "run/run_folder.h"
#include "run/run_mirror.h"
#include "step/timeline.h"
#include "text/console.h"
#include "trainer/commands/product_rate.h"
#include "trainer/options.h"
#include "trainer/startup/phase.h"

namespace llmc {

struct Rank {
  const Options& options;
  const Program& program;
  const TrainerPhases& phases;
  const LauncherInfo& launch;
  Rendezvous& rendezvous;
  ProgramInfo in_force;  // of the program, in the phase of the next step
  Console console = is_first() ? Console(stdout, options.quiet, launch.world_size > 1) : Console();

  Mesh mesh() const { return mesh_of(WorldRank{launch.rank, launch.world_size}); }
  bool is_first() const { return launch.rank == 0; }
  bool has_others() const { return launch.world_size > 1; }
  const ProgramInfo& info() const { return in_force; }
  int device() const { return options.device.value_or(Device::index_of(launch.local_rank)); }
  Log warnings() {
    return [this](const std::string& line) { console.warning(line); };
  }
};

/// The files that a rank writes: the run folder and its mirror are rank 0's, a log the others'.
struct RunFiles {
  std::unique_ptr<RunFolder> folder;
  std::unique_ptr<RunMirror> mirror;
  RankLog log;
  std::filesystem::path path;  // of the run folder, on all ranks
};

/// The inputs of a rank: its batches, its device, and the others' results.
struct Machine {
  std::unique_ptr<Loader> loader;
  std::unique_ptr<Device> device;
  std::unique_ptr<Timeline> timeline;  // of rank 0; null: none
  std::unique_ptr<Communicator> ranks;
  std::optional<ProductRate> products;  // measured on this rank
  std::optional<double> product_flops;  // total FLOP/s of all devices' GEMMs
};

}  // namespace llmc
