// Loads Open MPI when a run first needs it; a single process neither loads nor needs it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/launcher.h"

namespace llmc {

/// MPI of this process; there can be only one. Calls must be made from the thread that created it, and throw
/// Failure(peer_lost) if MPI reports an error.
class Mpi {
 public:
  /// Messages in flight.
  using Requests = std::vector<void*>;

  /// Loads and starts MPI. Throws Failure(toolchain) if there is no Open MPI, Failure(usage) if Open MPI did not start
  /// this process, or its ranks differ from the launch's.
  explicit Mpi(const LauncherInfo& launch);
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  const std::string& version() const;  // "Open MPI 4.1.4"

  void broadcast(void* data, std::size_t bytes, int root);
  /// Start sending to, or receiving from, another rank. Messages between two ranks arrive in call order.
  void send(Requests& requests, const void* data, std::size_t bytes, int to);
  void receive(Requests& requests, void* data, std::size_t bytes, int from);
  /// Waits for all and empties the list.
  void wait(Requests& requests);

  /// Finalizes MPI; collective. A process that exits without it has failed, and mpirun ends the others.
  void finalize();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
