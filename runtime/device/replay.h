// Work of fixed shape, addresses and order, recorded once and then replayed by one call. One implementation per target.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"

namespace llmc {

/// `cpu`: calls the work each time. `cuda`: calls it the first time, so that libraries load their code; captures it as
/// a CUDA graph the second time; then launches the graph. Under a profiler (Device::profiled) it calls the work,
/// because a graph would show only names of kernels.
class Replay {
 public:
  explicit Replay(Device& device);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// `work` must put the same operations on the device's stream each time; varying inputs lie in device memory. It must
  /// not wait for the device. Its exceptions are passed on, and nothing is recorded then. `eager`: calls the work. If
  /// it has collectives, ranks must call it in the same runs: NCCL requires a collective to be in a graph on all ranks
  /// or on none.
  void run(const std::function<void()>& work, bool eager = false);
  /// Forgets what was recorded: the next run is like the first. Waits for the device if there is a recording.
  void forget();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
