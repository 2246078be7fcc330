// Copies between pageable host memory and the GPU through a ring of pinned buffers, in stream order.
#pragma once

#include <array>
#include <cstddef>

#include "device/cuda/resources.h"
#include "device/cuda/stream.h"

namespace llmc {

/// copy_in copies to the device, and `src` may be reused when it returns. copy_out copies from the device, and `dst` is
/// complete after finish() at the latest.
class Staging {
 public:
  explicit Staging(cudaStream_t stream);
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  void copy_in(void* dst, const void* src, std::size_t bytes);
  void copy_out(void* dst, const void* src, std::size_t bytes);

  /// Waits for all copies.
  void finish();

 private:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kSlotBytes = std::size_t{4} << 20;  // large enough for full PCIe bandwidth

  struct Slot {
    Pinned memory{kSlotBytes};
    Event done;
    bool busy = false;
    void* dst = nullptr;  // final destination of a copy from the device
    std::size_t bytes = 0;
  };

  Slot& next();
  void settle(Slot& slot);

  cudaStream_t stream_;
  std::array<Slot, kSlots> slots_;
  std::size_t turn_ = 0;
};

}  // namespace llmc
