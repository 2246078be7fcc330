#include "step/flat_buffers.h"

#include <algorithm>

#include "comm/collectives.h"
#include "error.h"

namespace llmc {

namespace {

constexpr std::size_t kVectors = 0;  // bucket 0 holds the vectors

/// Of a buffer, for so many elements of parameters.
std::size_t bytes(const Buffer& buffer, std::int64_t elements) {
  return static_cast<std::size_t>(bytes_of(buffer.dtype, in_blocks(elements, buffer.block)));
}

}  // namespace

std::size_t FlatBuffers::bucket_of(std::int64_t element) const {
  const auto after = std::ranges::upper_bound(info_.buckets, element, {}, &Bucket::offset);
  return static_cast<std::size_t>(after - info_.buckets.begin()) - 1;
}

bool FlatBuffers::in_windows(const Buffer& buffer) const {
  return shared_out(buffer) && is_sharded(Use::gradients, info_.shard);
}

void FlatBuffers::begin_step() {
  whole_ = {};
  if (windows_used_) device_.zero(arena_ + offsets_.windows(), info_.gradient_window_bytes);
  windows_used_ = false;
}

/// Of those that a buffer has elements of.
std::size_t FlatBuffers::first_bucket(const Buffer& buffer) const {
  return buckets_of(info_.buckets, info_.parameters, buffer.groups).first;
}

/// Returns the memory of a whole bucket. A sharded buffer is gathered in memory of the gradients, which is free between
/// steps and whose elements are at least as large: the gradients' buffer, or if they are sharded their gather buffers,
/// the vectors' first.
std::byte* FlatBuffers::whole_bucket(const Buffer& buffer, std::size_t bucket) const {
  const std::int64_t offset = info_.buckets[bucket].offset;
  if (!shared_out(buffer)) return begin_of(buffer) + bytes(buffer, offset - info_.buckets[first_bucket(buffer)].offset);
  const Buffer& gradients = buffer_of(info_.buffers, Use::gradients);
  if (!in_windows(buffer)) return begin_of(gradients) + bytes(gradients, offset);
  const std::size_t vectors = window_space(gradients.dtype, info_.buckets[kVectors].elements, info_.share_unit);
  return arena_ + offsets_.windows() + (bucket == kVectors ? 0 : vectors);
}

void FlatBuffers::gather(const Buffer& buffer, const ParameterInfo& parameter) {
  if (shares_.ranks() == 1 || buffer.use == Use::row_state) return;
  const std::size_t index = bucket_of(parameter.offset);
  std::optional<Whole>& held = whole_[index == kVectors ? 0 : 1];
  const Whole wanted{&buffer, index};
  if (held == wanted) return;
  const std::size_t share = bytes(buffer, shares_.share_of(index));
  std::byte* const whole = whole_bucket(buffer, index);
  if (shared_out(buffer)) {
    const std::int64_t begin = shares_.begin_of(index) - shares_.begin_of(first_bucket(buffer));
    device_.copy(whole + static_cast<std::size_t>(shares_.rank().index) * share,
                 begin_of(buffer) + bytes(buffer, begin), share);
  }
  ranks_.all_gather(whole, share, device_.stream());
  windows_used_ |= in_windows(buffer);
  held = wanted;
}

void FlatBuffers::check(const Buffer& buffer, std::int64_t offset, std::int64_t count) const {
  const std::int64_t elements =
      buffer.use == Use::row_state ? buffer.elements : in_blocks(info_.parameter_elements, buffer.block);
  if (offset < 0 || count < 0 || offset > elements || count > elements - offset)
    throw Failure(Exit::internal, "access outside of the training state");
}

void FlatBuffers::read(const Buffer& buffer, std::int64_t offset, std::int64_t count, std::byte* out) {
  check(buffer, offset, count);
  const std::byte* from = begin_of(buffer) + bytes(buffer, offset);  // of rows
  if (buffer.use != Use::row_state) {
    const std::int64_t flat = offset * buffer.block;
    const std::size_t bucket = bucket_of(flat);
    from = whole_bucket(buffer, bucket) + bytes(buffer, flat - info_.buckets[bucket].offset);
  }
  device_.copy_out(out, from, bytes(buffer, count * buffer.block));
  device_.synchronize();
}

void FlatBuffers::write(const Buffer& buffer, std::int64_t offset, std::int64_t count, const std::byte* values) {
  check(buffer, offset, count);
  if (buffer.use == Use::row_state)
    return device_.copy_in(begin_of(buffer) + bytes(buffer, offset), values, bytes(buffer, count));
  whole_ = {};
  const std::int64_t flat = offset * buffer.block, elements = count * buffer.block;
  const auto copy = [&](std::int64_t from, std::int64_t place, std::int64_t part) {
    device_.copy_in(begin_of(buffer) + bytes(buffer, place), values + bytes(buffer, from - flat), bytes(buffer, part));
  };
  const std::size_t first = first_bucket(buffer);
  if (shared_out(buffer))
    shares_.own(flat, elements, [&](std::int64_t from, std::int64_t state, std::int64_t part) {
      copy(from, state - shares_.begin_of(first), part);
    });
  else
    copy(flat, flat - info_.buckets[first].offset, elements);
}

}  // namespace llmc
