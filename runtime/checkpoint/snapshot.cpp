#include "checkpoint/snapshot.h"

#include <algorithm>

#include "checkpoint/parameter_stream.h"
#include "error.h"

namespace llmc {

namespace {

/// Bytes that each rank writes.
std::vector<std::size_t> written_bytes(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers,
                                       WorldRank rank, std::int64_t shard_bytes) {
  std::vector<std::size_t> bytes(static_cast<std::size_t>(rank.size));
  for (const TensorFile& file : tensor_files(stored_parameters(parameters), buffers.size(), rank, shard_bytes))
    for (const auto& [name, tensor] : tensors_of(file, buffers))
      bytes[static_cast<std::size_t>(file.owner.index)] += tensor.bytes();
  return bytes;
}

}  // namespace

std::size_t Snapshot::bytes(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers,
                            WorldRank rank, std::int64_t shard_bytes) {
  return written_bytes(parameters, buffers, rank, shard_bytes)[static_cast<std::size_t>(rank.index)];
}

std::size_t Snapshot::most_bytes(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers,
                                 WorldRank rank, std::int64_t shard_bytes) {
  return std::ranges::max(written_bytes(parameters, buffers, rank, shard_bytes));
}

Snapshot::Snapshot(std::span<const ParameterInfo> parameters, std::span<const SavedBuffer> buffers, WorldRank rank,
                   std::int64_t shard_bytes, std::byte* memory)
    : buffers_(buffers.begin(), buffers.end()),
      files_(tensor_files(stored_parameters(parameters), buffers.size(), rank, shard_bytes)),
      rank_(rank) {
  for (const TensorFile& file : files_) {
    if (file.owner != rank_) continue;
    for (const auto& [name, tensor] : tensors_of(file, buffers_)) {
      copies_[{tensor.buffer, tensor.elements.offset}] = {flat_elements(tensor.elements), memory};
      memory += tensor.bytes();
    }
  }
}

void Snapshot::take(StateAccess& from) {
  for (const TensorFile& file : files_)
    for (const auto& [name, tensor] : tensors_of(file, buffers_)) {
      from.gather(tensor.buffer, *tensor.parameter);
      if (file.owner != rank_) continue;
      const Copy& copy = copies_.at({tensor.buffer, tensor.elements.offset});
      from.read(tensor.buffer, tensor.elements.offset, copy.elements, copy.at);
    }
}

void Snapshot::read(std::size_t buffer, std::int64_t offset, std::int64_t count, std::byte* out) {
  const auto after = copies_.upper_bound({buffer, offset});
  const auto found = after == copies_.begin() ? copies_.end() : std::prev(after);
  if (found == copies_.end() || found->first.first != buffer || count < 0 ||
      offset - found->first.second > found->second.elements - count)
    throw Failure(Exit::internal, "the snapshot has no copy of these elements");
  const std::int64_t size = bytes_of(buffers_[buffer].dtype, 1);
  std::copy_n(found->second.at + (offset - found->first.second) * size, count * size, out);
}

void Snapshot::write(std::size_t, std::int64_t, std::int64_t, const std::byte*) {
  throw Failure(Exit::internal, "a snapshot cannot be written to");
}

}  // namespace llmc
