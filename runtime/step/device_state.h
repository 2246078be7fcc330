// The training state on the device, as checkpoints read and write it.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "checkpoint/state_access.h"
#include "program/program.h"
#include "step/flat_buffers.h"

namespace llmc {

class DeviceState final : public StateAccess {
 public:
  /// `masters`: host_masters(). `join`: called before they are gathered. All live longer.
  DeviceState(const ProgramInfo& info, FlatBuffers& flat, const Buffer& masters, std::function<void()> join)
      : flat_(flat), join_(std::move(join)), saved_(saved_buffers(info.buffers)), buffers_{&masters} {
    for (const Buffer& buffer : info.buffers)
      if (is_state(buffer.use)) buffers_.push_back(&buffer);
  }

  std::span<const SavedBuffer> buffers() const override { return saved_; }
  void gather(std::size_t buffer, const ParameterInfo& parameter) override {
    if (buffer == kWeights) join_();
    flat_.gather(*buffers_.at(buffer), parameter);
  }
  void read(std::size_t buffer, std::int64_t offset, std::int64_t count, std::byte* out) override {
    flat_.read(*buffers_.at(buffer), offset, count, out);
  }
  void write(std::size_t buffer, std::int64_t offset, std::int64_t count, const std::byte* values) override {
    flat_.write(*buffers_.at(buffer), offset, count, values);
  }

 private:
  FlatBuffers& flat_;
  std::function<void()> join_;
  std::vector<SavedBuffer> saved_;
  std::vector<const Buffer*> buffers_;  // in the same order
};

}  // namespace llmc
