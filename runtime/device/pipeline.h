// What lets the host run ahead of its device: inputs on their way, results that are read later.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "device/device.h"

namespace llmc {

/// Blocks of equal size that the host writes in turn, each of which the device takes to one place. cuda: through pinned
/// memory and a copy stream, so that a block travels while the device works on those before it; cpu: the place itself.
class InputRing {
 public:
  /// `place`: device memory of `bytes`, where kernels read. `slots`: device memory of `count` blocks on their way; null
  /// and 0 on cpu.
  InputRing(Device& device, std::byte* place, std::byte* slots, std::size_t bytes, std::size_t count);
  ~InputRing();
  InputRing(const InputRing&) = delete;
  InputRing& operator=(const InputRing&) = delete;

  /// Host memory for the next block. Waits for the device when all slots are on their way.
  std::byte* next();
  /// Sends the block that next() gave; what is put on the stream from now on finds it at the place.
  void send();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Bytes of the device as they are at one point of its stream, read by the host later.
class ReadBack {
 public:
  ReadBack(Device& device, const std::byte* from, std::size_t bytes);
  ~ReadBack();
  ReadBack(const ReadBack&) = delete;
  ReadBack& operator=(const ReadBack&) = delete;

  /// Asks for the bytes as they will be after the work that is on the stream now. At most kDepth may be asked for
  /// ahead.
  void ask();
  /// The oldest that were asked for and not received; waits for them. Valid until kDepth more are asked for.
  std::span<const std::byte> receive();

  static constexpr std::size_t kDepth = 2;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
