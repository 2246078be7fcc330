// Collectives between the ranks of a run, one GPU or process each. One file a library implements them.
#pragma once

#include <cstddef>

#include "device/device.h"
#include "device/types.h"
#include "program/hidden.h"

namespace llmc {

class CollectiveLog;  // comm/collective_log.h
struct Launch;        // comm/launch.h
class Rendezvous;     // comm/rendezvous.h
enum class Starter;   // comm/spawn.h

/// What a run asks of the library. On cpu sums have one order anyway, and no collective takes a product's place.
struct CollectiveNeeds {
  bool deterministic = false;  // equal calls give equal bits
  int most_sms = 0;            // of a GPU, which collectives take at most; 0: as many as the library likes
};

/// All calls are made by every rank in the same order, with the same counts, and are ordered on the stream. Sums add
/// the ranks' values in an order that depends on their number and the count alone, and every rank gets the same bits.
/// bf16 is added in fp32 or in bf16, as the library does, and rounded at least once.
/// Throws Failure(peer_lost) where the library says that another rank is gone.
class Communicator {
 public:
  /// One rank: nothing of the library is loaded or called, now or later, and a collective does nothing. More: of all
  /// ranks of the launch, which `rendezvous` has brought together. Throws Failure(toolchain, usage) where the library
  /// is missing or cannot be had from this launcher.
  Communicator(Device& device, const Launch& launch, Rendezvous& rendezvous, const CollectiveNeeds& needs = {});
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int world_size() const;
  const char* description() const;  // "1 rank", "2 ranks, Open MPI 4.1.4", "8 ranks, NCCL 2.28.9"

  /// Where each call below is noted with its kind and size; null: one rank.
  CollectiveLog* collectives() const;

  /// Memory of the device as Device::allocate() gives it, which the library may send from and receive in without copies
  /// of its own. Lives until the first of both goes.
  std::byte* allocate(Device& device, std::size_t bytes);

  /// A stream of the communicator's own: what is put on it from now on begins when what is on `stream` now is done, and
  /// runs beside what comes after. On cpu and of one rank `stream` itself.
  Stream& beside(Stream& stream);
  /// Remembers what is on that stream of its own now as number `mark`, in the place of what had the number.
  void mark(int mark);
  /// Keeps what is put on `stream` from now on until what was marked is done; join: all that is on the stream of its
  /// own. What is recorded to run again (device/replay.h) waits only for marks of its own.
  void wait(int mark, Stream& stream);
  void join(Stream& stream);

  /// Replaces `values` [count] by their sums over all ranks.
  void all_reduce_sum(float* values, std::size_t count, Stream& stream);
  void all_reduce_sum(double* values, std::size_t count, Stream& stream);
  void all_reduce_sum(bf16* values, std::size_t count, Stream& stream);
  /// Replaces `values` [count], a few, by the largest that a rank has.
  void all_reduce_max(double* values, std::size_t count, Stream& stream);
  /// data [world_size * share]: afterwards this rank's share, at data + rank * share, holds the sums over all ranks;
  /// the other shares are undefined.
  void reduce_scatter_sum(float* data, std::size_t share, Stream& stream);
  void reduce_scatter_sum(bf16* data, std::size_t share, Stream& stream);
  /// mine [share] bytes, data [world_size * share]: afterwards data holds every rank's `mine`, in the order of ranks.
  /// `mine` may lie in `data`, at its own place there. One rank copies nothing.
  void all_gather(const void* mine, void* data, std::size_t share, Stream& stream);
  /// The same, where every rank has written its own share of `data`.
  void all_gather(void* data, std::size_t share, Stream& stream) {
    all_gather(static_cast<const std::byte*>(data) + static_cast<std::size_t>(rank()) * share, data, share, stream);
  }
  /// Replaces `data` by rank `root`'s.
  void broadcast(void* data, std::size_t bytes, int root, Stream& stream);

 private:
  struct Impl;
  Hidden<Impl> impl_;  // null: one rank
};

/// How several ranks of this machine are started for this library.
Starter rank_starter();

}  // namespace llmc
