#include "checkpoint/snapshot.h"

#include <algorithm>

#include "checkpoint/parameter_stream.h"
#include "error.h"

namespace llmc {

namespace {

/// Elements that each rank writes.
std::vector<std::int64_t> written_elements(std::span<const ParameterInfo> parameters, std::size_t buffers,
                                           WorldRank rank, std::int64_t shard_bytes) {
  std::vector<std::int64_t> elements(static_cast<std::size_t>(rank.size));
  for (const TensorFile& file : tensor_files(stored_parameters(parameters), buffers, rank, shard_bytes))
    for (const ParameterInfo& p : file.parameters)
      elements[static_cast<std::size_t>(file.owner.index)] +=
          flat_elements(p) * static_cast<std::int64_t>(file.past - file.first);
  return elements;
}

}  // namespace

std::size_t Snapshot::bytes(std::span<const ParameterInfo> parameters, std::size_t buffers, WorldRank rank,
                            std::int64_t shard_bytes) {
  return static_cast<std::size_t>(
             written_elements(parameters, buffers, rank, shard_bytes)[static_cast<std::size_t>(rank.index)]) *
         sizeof(float);
}

std::size_t Snapshot::most_bytes(std::span<const ParameterInfo> parameters, std::size_t buffers, WorldRank rank,
                                 std::int64_t shard_bytes) {
  return static_cast<std::size_t>(std::ranges::max(written_elements(parameters, buffers, rank, shard_bytes))) *
         sizeof(float);
}

Snapshot::Snapshot(std::span<const ParameterInfo> parameters, std::span<const std::string> prefixes, WorldRank rank,
                   std::int64_t shard_bytes, std::byte* memory)
    : prefixes_(prefixes.begin(), prefixes.end()),
      files_(tensor_files(stored_parameters(parameters), prefixes.size(), rank, shard_bytes)),
      rank_(rank) {
  auto* next = reinterpret_cast<float*>(memory);
  for (const TensorFile& file : files_) {
    if (file.owner != rank_) continue;
    for (const auto& [name, tensor] : tensors_of(file, prefixes_)) {
      const std::int64_t elements = flat_elements(*tensor.parameter);
      copies_[{tensor.buffer, tensor.parameter->offset}] = {elements, next};
      next += elements;
    }
  }
}

void Snapshot::take(StateAccess& from) {
  for (const TensorFile& file : files_)
    for (const auto& [name, tensor] : tensors_of(file, prefixes_)) {
      from.gather(tensor.buffer, *tensor.parameter);
      if (file.owner != rank_) continue;
      const Copy& copy = copies_.at({tensor.buffer, tensor.parameter->offset});
      from.read(tensor.buffer, tensor.parameter->offset, copy.elements, copy.at);
    }
}

void Snapshot::read(std::size_t buffer, std::int64_t offset, std::int64_t count, float* out) {
  const auto after = copies_.upper_bound({buffer, offset});
  const auto found = after == copies_.begin() ? copies_.end() : std::prev(after);
  if (found == copies_.end() || found->first.first != buffer || count < 0 ||
      offset - found->first.second > found->second.elements - count)
    throw Failure(Exit::internal, "elements that the snapshot has no copy of");
  std::copy_n(found->second.at + (offset - found->first.second), count, out);
}

void Snapshot::write(std::size_t, std::int64_t, std::int64_t, const float*) {
  throw Failure(Exit::internal, "a snapshot is not written to");
}

}  // namespace llmc
