#include "device/pipeline.h"

#include <array>
#include <cstring>
#include <vector>

namespace llmc {

struct InputRing::Impl {
  std::byte* place;
};

InputRing::InputRing(Device&, std::byte* place, std::byte*, std::size_t, std::size_t) : impl_(new Impl{place}) {}
InputRing::~InputRing() = default;
std::byte* InputRing::next() { return impl_->place; }
void InputRing::send() {}

struct ReadBack::Impl {
  const std::byte* from;
  std::array<std::vector<std::byte>, kDepth> copies;
  std::size_t asked = 0, received = 0;
};

ReadBack::ReadBack(Device&, const std::byte* from, std::size_t bytes) : impl_(std::make_unique<Impl>()) {
  impl_->from = from;
  for (auto& copy : impl_->copies) copy.resize(bytes);
}
ReadBack::~ReadBack() = default;

void ReadBack::ask() {
  std::vector<std::byte>& copy = impl_->copies[impl_->asked++ % kDepth];
  std::memcpy(copy.data(), impl_->from, copy.size());
}

std::span<const std::byte> ReadBack::receive() { return impl_->copies[impl_->received++ % kDepth]; }

}  // namespace llmc
