// Collectives between the ranks of a run, one GPU or process each. One file a library implements them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "device/device.h"

namespace llmc {

/// All calls are made by every rank in the same order, and are ordered on the stream.
class Communicator {
 public:
  /// Of this process alone, on `device`: nothing of the library is called, now or later, and a collective does nothing.
  explicit Communicator(Device& device);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const;
  int world_size() const;
  std::string description() const;  // "1 rank", "8 ranks, NCCL 2.28.9"

  /// Replaces `values` [count] by their sums over all ranks.
  void all_reduce_sum(float* values, std::size_t count, Stream& stream);
  /// Replaces `data` by rank `root`'s.
  void broadcast(void* data, std::size_t bytes, int root, Stream& stream);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
