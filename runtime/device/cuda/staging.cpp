#include "device/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "device/cuda/check.h"

namespace llmc {

Staging::Staging(cudaStream_t stream) : stream_(stream) {}

Staging::~Staging() {
  cudaStreamSynchronize(stream_);  // the buffers may still be the target of copies; errors cannot be reported here
}

void Staging::settle(Slot& slot) {
  if (!slot.busy) return;
  slot.done.wait();
  if (slot.dst) std::memcpy(slot.dst, slot.memory.get(), slot.bytes);
  slot.busy = false;
}

Staging::Slot& Staging::next() {
  Slot& slot = slots_[turn_];
  turn_ = (turn_ + 1) % kSlots;
  settle(slot);
  return slot;
}

void Staging::copy_in(void* dst, const void* src, std::size_t bytes) {
  for (std::size_t begin = 0; begin < bytes; begin += kSlotBytes) {
    Slot& slot = next();
    slot.bytes = std::min(kSlotBytes, bytes - begin);
    slot.dst = nullptr;
    std::memcpy(slot.memory.get(), static_cast<const std::byte*>(src) + begin, slot.bytes);
    check(cudaMemcpyAsync(static_cast<std::byte*>(dst) + begin, slot.memory.get(), slot.bytes, cudaMemcpyHostToDevice,
                          stream_),
          "cudaMemcpyAsync to the device");
    slot.done.record(stream_);
    slot.busy = true;
  }
}

void Staging::copy_out(void* dst, const void* src, std::size_t bytes) {
  for (std::size_t begin = 0; begin < bytes; begin += kSlotBytes) {
    Slot& slot = next();
    slot.bytes = std::min(kSlotBytes, bytes - begin);
    slot.dst = static_cast<std::byte*>(dst) + begin;
    check(cudaMemcpyAsync(slot.memory.get(), static_cast<const std::byte*>(src) + begin, slot.bytes,
                          cudaMemcpyDeviceToHost, stream_),
          "cudaMemcpyAsync from the device");
    slot.done.record(stream_);
    slot.busy = true;
  }
}

void Staging::finish() {
  // Oldest first: of two copies to one address the later one must win.
  for (std::size_t i = 0; i < kSlots; ++i) settle(slots_[(turn_ + i) % kSlots]);
}

}  // namespace llmc
