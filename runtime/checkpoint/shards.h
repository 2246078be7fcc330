// Tensors in several files, as Hugging Face's loaders find them: how they are split, what the files are called, the
// index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace llmc {

/// The index beside several model files.
inline constexpr char kModelIndex[] = "model.safetensors.index.json";

/// How many consecutive tensors of these sizes go into each file: filled up to `limit` bytes, a tensor above it alone.
std::vector<std::size_t> split_tensors(std::span<const std::int64_t> bytes, std::int64_t limit);

/// STEM.safetensors, or of several files STEM-00001-of-00003.safetensors; `index` counts from 0.
std::string shard_name(const std::string& stem, std::size_t index, std::size_t count);

/// The text of kModelIndex. `files`: the file of each tensor; `bytes`: of all tensors.
std::string model_index(const std::map<std::string, std::string>& files, std::int64_t bytes);

}  // namespace llmc
