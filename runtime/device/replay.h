// Work of fixed shape, addresses and order, told to the device once and then run again by one call. One implementation
// a target.
#pragma once

#include <functional>
#include <memory>

#include "device/device.h"

namespace llmc {

/// `cpu`: calls the work each time. `cuda`: calls it the first time, so that libraries load what they load at first
/// use; takes it down as a CUDA graph the second time; after that launches the graph. Under a profiler
/// (Device::profiled), or where launches are listened to, it calls the work: a graph would show no names but those of
/// kernels.
class Replay {
 public:
  explicit Replay(Device& device);
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// `work` must put the same operations on the device's stream each time: what differs between runs lies in device
  /// memory. It may not wait for the device. What it throws passes, and nothing of it is kept.
  void run(const std::function<void()>& work);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
