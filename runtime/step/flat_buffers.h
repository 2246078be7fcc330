// Gives the host access to the flat buffers of all parameters, of which a rank may have only its shard.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "device/device.h"
#include "program/parameters.h"
#include "step/arena_offsets.h"

namespace llmc {

class FlatBuffers {
 public:
  /// All references must outlive this.
  FlatBuffers(Device& device, Communicator& ranks, std::byte* arena, const ProgramInfo& info, const Shares& shares,
              const ArenaOffsets& offsets)
      : device_(device), ranks_(ranks), arena_(arena), info_(info), shares_(shares), offsets_(offsets) {}

  /// Gathers a parameter's elements on this rank, valid until another bucket is gathered. If the rank holds only its
  /// shard, they are stored in memory that a step uses for gradients. Collective. Does nothing with one rank.
  void gather(const Buffer& buffer, const ParameterInfo& parameter);
  /// Copies elements [offset, offset + count) of a parameter that was gathered last to host memory; complete on return.
  /// Element i of a buffer of blocks is that of the parameters' elements from i * block on.
  void read(const Buffer& buffer, std::int64_t offset, std::int64_t count, std::byte* out);
  /// Copies host memory to elements [offset, offset + count). A rank that has only its shard ignores the elements
  /// outside it.
  void write(const Buffer& buffer, std::int64_t offset, std::int64_t count, const std::byte* values);
  /// Call when a buffer has changed other than by write(): what was gathered no longer counts.
  void forget() { whole_ = {}; }
  /// Call before each step, which changes the buffers. Zeroes the gather buffers of gradients if the host has used
  /// them: kernels that sum a parameter's gradients also read the padding up to 16 bytes, which a step does not write.
  void begin_step();

 private:
  std::byte* begin_of(const Buffer& buffer) const { return arena_ + offsets_.of(buffer); }
  bool shared_out(const Buffer& buffer) const { return shares_.ranks() > 1 && is_sharded(buffer.use, info_.shard); }
  std::size_t bucket_of(std::int64_t element) const;
  bool in_windows(const Buffer& buffer) const;
  std::byte* whole_bucket(const Buffer& buffer, std::size_t bucket) const;
  std::size_t first_bucket(const Buffer& buffer) const;
  void check(const Buffer& buffer, std::int64_t offset, std::int64_t count) const;

  struct Whole {
    const Buffer* buffer;
    std::size_t bucket;
    bool operator==(const Whole&) const = default;
  };

  Device& device_;
  Communicator& ranks_;
  std::byte* arena_;
  const ProgramInfo& info_;
  const Shares& shares_;
  const ArenaOffsets& offsets_;
  // Gathered buckets: the one of all vectors, whose parameters alternate with matrices in a checkpoint, and one other.
  std::array<std::optional<Whole>, 2> whole_;
  bool windows_used_ = false;
};

}  // namespace llmc
