#include "step/flat_buffers.h"

#include <algorithm>

#include "comm/collectives.h"
#include "error.h"

namespace llmc {

namespace {

constexpr std::size_t kVectors = 0;  // the first bucket

std::size_t bytes(std::int64_t elements) { return static_cast<std::size_t>(elements) * sizeof(float); }

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
  if (windows_used_) device_.zero(arena_ + places_.windows(), info_.gradient_window_bytes);
  windows_used_ = false;
}

/// Where a bucket's elements are when they are whole. Between steps nobody needs the gradients: their buffer, or where
/// they are shared out the windows in which they are reduced, which come first, and first the vectors'.
std::byte* FlatBuffers::whole_bucket(const Buffer& buffer, std::size_t bucket) const {
  const std::int64_t offset = info_.buckets[bucket].offset;
  if (!shared_out(buffer)) return begin_of(buffer) + bytes(offset);
  if (!in_windows(buffer)) return begin_of(buffer_of(info_.buffers, Use::gradients)) + bytes(offset);
  const std::size_t vectors = window_space(DType::f32, info_.buckets[kVectors]);
  return arena_ + places_.windows() + (bucket == kVectors ? 0 : vectors);
}

void FlatBuffers::gather(const Buffer& buffer, const ParameterInfo& parameter) {
  if (shares_.ranks() == 1) return;
  const std::size_t index = bucket_of(parameter.offset);
  std::optional<Whole>& held = whole_[index == kVectors ? 0 : 1];
  const Whole wanted{&buffer, index};
  if (held == wanted) return;
  const Bucket& bucket = info_.buckets[index];
  const std::int64_t share = share_of(bucket.elements, shares_.ranks());
  std::byte* const whole = whole_bucket(buffer, index);
  if (shared_out(buffer))
    device_.copy(whole + bytes(shares_.rank().index * share), begin_of(buffer) + bytes(shares_.begin_of(index)),
                 bytes(share));
  ranks_.all_gather(whole, bytes(share), device_.stream());
  windows_used_ |= in_windows(buffer);
  held = wanted;
}

void FlatBuffers::check(std::int64_t offset, std::int64_t count) const {
  const std::int64_t elements = info_.parameter_elements;
  if (offset < 0 || count < 0 || offset > elements || count > elements - offset)
    throw Failure(Exit::internal, "access outside of the training state");
}

void FlatBuffers::read(const Buffer& buffer, std::int64_t offset, std::int64_t count, float* out) {
  check(offset, count);
  const std::size_t bucket = bucket_of(offset);
  device_.copy_out(out, whole_bucket(buffer, bucket) + bytes(offset - info_.buckets[bucket].offset), bytes(count));
  device_.synchronize();
}

void FlatBuffers::write(const Buffer& buffer, std::int64_t offset, std::int64_t count, const float* values) {
  check(offset, count);
  whole_ = {};
  const auto copy = [&](std::int64_t flat, std::int64_t place, std::int64_t part) {
    device_.copy_in(begin_of(buffer) + bytes(place), values + (flat - offset), bytes(part));
  };
  if (shared_out(buffer))
    shares_.own(offset, count, copy);
  else
    copy(offset, offset, count);
}

}  // namespace llmc
