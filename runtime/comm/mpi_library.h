// Open MPI, loaded when a run first needs it: a process alone neither loads nor needs it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "comm/launch.h"

namespace llmc {

/// MPI of one process, of which there can be one. Calls are made from the thread that made it, and throw
/// Failure(peer_lost) where MPI reports an error.
class Mpi {
 public:
  /// Messages under way.
  using Requests = std::vector<void*>;

  /// Loads and starts it. Throws Failure(toolchain) where there is no Open MPI, Failure(usage) where none started this
  /// process, or where its ranks are not the launch's.
  explicit Mpi(const Launch& launch);
  ~Mpi();
  Mpi(const Mpi&) = delete;
  Mpi& operator=(const Mpi&) = delete;

  const std::string& version() const;  // "Open MPI 4.1.4"

  void broadcast(void* data, std::size_t bytes, int root);
  /// Begin to send to, or to receive from, another rank. Messages between two ranks arrive in the order of the calls.
  void send(Requests& requests, const void* data, std::size_t bytes, int to);
  void receive(Requests& requests, void* data, std::size_t bytes, int from);
  /// Waits for all, and empties the list.
  void wait(Requests& requests);

  /// The end of MPI, collective. A process that ends otherwise has failed, and mpirun ends the others.
  void finalize();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
