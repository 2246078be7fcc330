#include "checkpoint/shards.h"

#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "checkpoint/manifest.h"
#include "checkpoint/model_index.h"
#include "error.h"

namespace llmc {

std::vector<std::size_t> split_tensors(std::span<const std::int64_t> bytes, std::int64_t limit) {
  std::vector<std::size_t> counts;
  std::int64_t filled = 0;
  for (const std::int64_t size : bytes) {
    if (counts.empty() || size > limit - filled) {
      counts.push_back(0);
      filled = 0;
    }
    ++counts.back();
    filled += size;
  }
  return counts;
}

std::string shard_name(const std::string& stem, std::size_t index, std::size_t count) {
  if (count == 1) return stem + ".safetensors";
  char number[64];
  std::snprintf(number, sizeof number, "-%05zu-of-%05zu", index + 1, count);
  return stem + number + ".safetensors";
}

std::string model_index(const std::map<std::string, std::string>& files, std::int64_t bytes) {
  return nlohmann::json{{"metadata", {{"total_size", bytes}}}, {"weight_map", files}}.dump(2) + "\n";
}

std::map<std::string, std::string> read_model_index(const std::filesystem::path& index) {
  constexpr std::uint64_t kMaxBytes = 64u << 20;
  const std::string text = read_small_file(index, kMaxBytes);
  try {
    return parse_model_index(text);
  } catch (const std::invalid_argument& problem) {
    throw Failure(Exit::checkpoint, fmt::format("'{}' cannot be used: {}", index.string(), problem.what()));
  }
}

}  // namespace llmc
