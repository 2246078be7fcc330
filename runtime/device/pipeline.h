// Lets the host run ahead of its device: inputs in flight, and results that are read later.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "device/device.h"

namespace llmc {

/// Ring of equally sized blocks that the host fills in turn and the device copies to one fixed address. cuda: through
/// pinned memory and a copy stream, so that transfers overlap with earlier work. cpu: the block is that address itself.
class InputRing {
 public:
  /// `place`: device memory of `bytes`, read by kernels. `slots`: device memory for `count` blocks in flight; null and
  /// 0 on cpu.
  InputRing(Device& device, std::byte* place, std::byte* slots, std::size_t bytes, std::size_t count);
  ~InputRing();
  InputRing(const InputRing&) = delete;
  InputRing& operator=(const InputRing&) = delete;

  /// Host memory for the next block. Waits for the device if all slots are in flight.
  std::byte* next();
  /// Sends the block of the last next(); later work on the stream finds it at `place`.
  void send();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Snapshot of device bytes at one point of its stream, read by the host later.
class ReadBack {
 public:
  ReadBack(Device& device, const std::byte* from, std::size_t bytes);
  ~ReadBack();
  ReadBack(const ReadBack&) = delete;
  ReadBack& operator=(const ReadBack&) = delete;

  /// Requests the bytes as of all work now on the stream. At most kDepth requests may be pending.
  void ask();
  /// Waits for the oldest pending request and returns its bytes. Valid until kDepth more requests.
  std::span<const std::byte> receive();

  static constexpr std::size_t kDepth = 2;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
