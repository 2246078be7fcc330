#include "device/pipeline.h"

#include <array>
#include <utility>
#include <vector>

#include "device/cuda/check.h"
#include "device/cuda/resources.h"
#include "device/cuda/stream.h"

namespace llmc {
struct InputRing::Impl {
  struct Slot {
    Pinned host;
    std::byte* device;
    Event arrived;  // on the copy stream: the slot is filled and the host memory is free for reuse
    Event taken;    // on the device's stream: the slot is free for reuse
  };

  cudaStream_t compute = nullptr, copies = nullptr;
  std::byte* place;
  std::size_t bytes, turn = 0;
  std::vector<Slot> slots;

  ~Impl() {
    if (!copies) return;
    cudaStreamSynchronize(copies);  // host memory may still be read
    slots.clear();
    cudaStreamDestroy(copies);
  }
};

InputRing::InputRing(Device& device, std::byte* place, std::byte* slots, std::size_t bytes, std::size_t count)
    : impl_(std::make_unique<Impl>()) {
  impl_->compute = device.stream().handle;
  impl_->place = place;
  impl_->bytes = bytes;
  check(cudaStreamCreateWithFlags(&impl_->copies, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  for (std::size_t i = 0; i < count; ++i) {
    impl_->slots.push_back({Pinned(bytes), slots + i * bytes, Event(), Event()});
    impl_->slots.back().taken.record(impl_->compute);  // free once the work now on the stream, which zeroes it, is done
  }
}

InputRing::~InputRing() = default;

std::byte* InputRing::next() {
  const Impl::Slot& slot = impl_->slots[impl_->turn];
  slot.arrived.wait();
  return slot.host.get();
}

void InputRing::send() {
  Impl::Slot& slot = impl_->slots[impl_->turn];
  impl_->turn = (impl_->turn + 1) % impl_->slots.size();
  slot.taken.hold(impl_->copies);
  check(cudaMemcpyAsync(slot.device, slot.host.get(), impl_->bytes, cudaMemcpyHostToDevice, impl_->copies),
        "cudaMemcpyAsync");
  slot.arrived.record(impl_->copies);
  // Graphs have the address of their inputs built in, so a second copy is needed: 0.6 MB in the reference run, which a
  // GPU's memory moves in less than a microsecond.
  slot.arrived.hold(impl_->compute);
  check(cudaMemcpyAsync(impl_->place, slot.device, impl_->bytes, cudaMemcpyDeviceToDevice, impl_->compute),
        "cudaMemcpyAsync");
  slot.taken.record(impl_->compute);
}

struct ReadBack::Impl {
  struct Slot {
    Pinned host;
    Event arrived;
  };

  Impl(cudaStream_t on, const std::byte* source, std::size_t count)
      : stream(on), from(source), bytes(count), slots{{{Pinned(count), Event()}, {Pinned(count), Event()}}} {}

  cudaStream_t stream;
  const std::byte* from;
  std::size_t bytes;
  std::array<Slot, kDepth> slots;
  std::size_t asked = 0, received = 0;
};

ReadBack::ReadBack(Device& device, const std::byte* from, std::size_t bytes)
    : impl_(std::make_unique<Impl>(device.stream().handle, from, bytes)) {}

ReadBack::~ReadBack() {
  cudaStreamSynchronize(impl_->stream);  // the memory may still be written
}

void ReadBack::ask() {
  Impl::Slot& slot = impl_->slots[impl_->asked++ % kDepth];
  check(cudaMemcpyAsync(slot.host.get(), impl_->from, impl_->bytes, cudaMemcpyDeviceToHost, impl_->stream),
        "cudaMemcpyAsync");
  slot.arrived.record(impl_->stream);
}

std::span<const std::byte> ReadBack::receive() {
  Impl::Slot& slot = impl_->slots[impl_->received++ % kDepth];
  slot.arrived.wait();
  return {slot.host.get(), impl_->bytes};
}

}  // namespace llmc
