// A copy of a training state, so that a checkpoint can be written while training continues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/division.h"
#include "checkpoint/state_access.h"

namespace llmc {

/// One rank's part of a checkpoint, in host memory.
class Snapshot final : public StateAccess {
 public:
  /// Bytes of the elements that a rank writes.
  static std::size_t bytes(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers,
                           WorldRank rank, std::int64_t shard_bytes);
  /// The most of any rank, `rank` one of them.
  static std::size_t most_bytes(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers,
                                WorldRank rank, std::int64_t shard_bytes);
  /// `memory`: bytes() of them. `buffers`: of the state that take() copies.
  Snapshot(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers, WorldRank rank,
           std::int64_t shard_bytes, std::byte* memory);

  /// Copies this rank's part in checkpoint order. Collective if gather() is.
  void take(StateAccess& from);

  std::span<const SavedBuffer> buffers() const override { return buffers_; }
  void gather(std::size_t, const ParameterInfo&) override {}
  /// Throws Failure(internal) for elements that it has no copy of, as write() always does.
  void read(std::size_t buffer, std::int64_t offset, std::int64_t count, std::byte* out) override;
  void write(std::size_t buffer, std::int64_t offset, std::int64_t count, const std::byte* values) override;

 private:
  struct Copy {
    std::int64_t elements;
    std::byte* at;
  };
  std::vector<SavedBuffer> buffers_;
  std::vector<TensorFile> files_;
  WorldRank rank_;
  std::map<std::pair<std::size_t, std::int64_t>, Copy> copies_;  // by buffer and offset
};

}  // namespace llmc
