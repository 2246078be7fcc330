#include "checkpoint/division.h"

#include <algorithm>
#include <string_view>

#include "checkpoint/shards.h"

namespace llmc {

std::vector<TensorFile> tensor_files(std::span<const ParameterInfo> stored, std::size_t buffers, WorldRank rank,
                                     std::int64_t shard_bytes) {
  std::vector<std::int64_t> bytes;
  for (const ParameterInfo& p : stored) bytes.push_back(p.rows * p.cols * static_cast<std::int64_t>(sizeof(float)));
  const std::vector<std::size_t> counts = split_tensors(bytes, shard_bytes);
  std::vector<TensorFile> files;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const auto part = stored.first(counts[i]);
    stored = stored.subspan(counts[i]);
    const WorldRank owner{static_cast<int>(i % static_cast<std::size_t>(rank.size)), rank.size};
    const auto add = [&](const char* stem, std::size_t first, std::size_t past) {
      files.push_back({shard_name(stem, i, counts.size()), {part.begin(), part.end()}, first, past, owner});
    };
    add("model", kWeights, kWeights + 1);
    add("optimizer", kWeights + 1, buffers);
  }
  return files;
}

std::vector<std::pair<std::string, StoredTensor>> tensors_of(const TensorFile& file,
                                                             std::span<const SavedBuffer> buffers) {
  std::vector<std::pair<std::string, StoredTensor>> tensors;
  for (std::size_t buffer = file.first; buffer < file.past; ++buffer) {
    const SavedBuffer& of = buffers[buffer];
    for (const ParameterInfo& p : file.parameters)
      if (of.covers(p)) tensors.push_back({of.prefix + p.name, {buffer, &p, parameter_in(of, p), of.dtype}});
  }
  std::ranges::sort(tensors, {}, [](const auto& tensor) {
    return std::pair(-bytes_of(tensor.second.dtype, 1), std::string_view(tensor.first));
  });
  return tensors;
}

}  // namespace llmc
