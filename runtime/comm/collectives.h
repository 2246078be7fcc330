// Collectives between the ranks of a run, each with its own GPU or process. One implementation per library.
#pragma once

#include <cstddef>

#include "device/device.h"
#include "device/types.h"
#include "program/hidden.h"

namespace llmc {

class CollectiveLog;  // comm/collective_log.h
struct LauncherInfo;  // comm/launcher.h
class Rendezvous;     // comm/rendezvous.h
enum class Starter;   // comm/spawn.h

/// A run's requirements of the library. On cpu sums always have a fixed order, and collectives take no SMs from GEMMs.
struct CollectiveNeeds {
  bool deterministic = false;  // equal calls give equal bits
  int most_sms = 0;            // SMs of a GPU that collectives use at most; 0: the library's choice
};

/// Every rank makes all calls in the same order with the same counts. They are ordered on the stream. The order of
/// summation depends only on the number of ranks and the count, and every rank gets the same bits. bf16 is added in
/// fp32 or in bf16, depending on the library, and rounded at least once. Throws Failure(peer_lost) if the library
/// reports a lost rank.
class Communicator {
 public:
  /// One rank: never loads or calls the library, and collectives do nothing. More: spans all ranks of the launch,
  /// connected by `rendezvous`. Throws Failure(toolchain, usage) if the library is missing or cannot be used with this
  /// launcher.
  Communicator(Device& device, const LauncherInfo& launch, Rendezvous& rendezvous, const CollectiveNeeds& needs = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int world_size() const;
  const char* description() const;  // "1 rank", "2 ranks, Open MPI 4.1.4", "8 ranks, NCCL 2.28.9"

  /// Log of the calls below with kind and size; null: one rank.
  CollectiveLog* collectives() const;

  /// Device memory like Device::allocate()'s, which the library can send from and receive into without its own copies.
  /// Valid until this or the device is destroyed.
  std::byte* allocate(Device& device, std::size_t bytes);

  /// Returns the communicator's own stream. Later work on it starts when the current work on `stream` is done, and
  /// overlaps with later work on `stream`. On cpu and with one rank it is `stream` itself.
  Stream& beside(Stream& stream);
  /// Marks the current end of the communicator's stream as number `mark`, replacing an earlier mark of that number.
  void mark(int mark);
  /// Make later work on `stream` wait: wait() for a mark, join() for everything on the communicator's stream. Recorded
  /// work (device/replay.h) only waits for marks of its own recording.
  void wait(int mark, Stream& stream);
  void join(Stream& stream);

  /// Replaces `values` [count] by their sums over all ranks.
  void all_reduce_sum(float* values, std::size_t count, Stream& stream);
  void all_reduce_sum(double* values, std::size_t count, Stream& stream);
  void all_reduce_sum(bf16* values, std::size_t count, Stream& stream);
  /// Replaces `values` [count], a few, by the maxima over all ranks.
  void all_reduce_max(double* values, std::size_t count, Stream& stream);
  /// data [world_size * share]: afterwards this rank's shard, at data + rank * share, holds the sums over all ranks;
  /// the other shards are undefined.
  void reduce_scatter_sum(float* data, std::size_t share, Stream& stream);
  void reduce_scatter_sum(bf16* data, std::size_t share, Stream& stream);
  /// mine [share] bytes, data [world_size * share]: afterwards data holds every rank's `mine`, in rank order. `mine`
  /// may be this rank's shard of `data`. One rank copies nothing.
  void all_gather(const void* mine, void* data, std::size_t share, Stream& stream);
  /// Same, if every rank has already written its shard of `data`.
  void all_gather(void* data, std::size_t share, Stream& stream) {
    all_gather(static_cast<const std::byte*>(data) + static_cast<std::size_t>(rank()) * share, data, share, stream);
  }
  /// Replaces `data` by rank `root`'s.
  void broadcast(void* data, std::size_t bytes, int root, Stream& stream);

 private:
  struct Impl;
  Hidden<Impl> impl_;  // null: one rank
};

/// How several ranks on this machine are started for this library.
Starter rank_starter();

}  // namespace llmc
