#include "checkpoint/division.h"

#include "checkpoint/shards.h"
#include "checkpoint/state_access.h"

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

std::map<std::string, StoredTensor> tensors_of(const TensorFile& file, std::span<const std::string> prefixes) {
  std::map<std::string, StoredTensor> tensors;
  for (std::size_t buffer = file.first; buffer < file.past; ++buffer)
    for (const ParameterInfo& p : file.parameters) tensors[prefixes[buffer] + p.name] = {buffer, &p};
  return tensors;
}

std::int64_t flat_elements(const ParameterInfo& p) { return (p.rows - 1) * p.pitch + p.cols; }

}  // namespace llmc
