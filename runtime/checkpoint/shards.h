// Splits tensors into several files as Hugging Face's loaders expect: file sizes, names, and the index.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace llmc {

/// Index of several model files.
inline constexpr char kModelIndex[] = "model.safetensors.index.json";

/// Number of consecutive tensors of these sizes in each file: up to `limit` bytes; a larger tensor gets its own file.
std::vector<std::size_t> split_tensors(std::span<const std::int64_t> bytes, std::int64_t limit);

/// STEM.safetensors, or for several files STEM-00001-of-00003.safetensors; `index` counts from 0.
std::string shard_name(const std::string& stem, std::size_t index, std::size_t count);

/// Text of kModelIndex. `files`: file of each tensor; `bytes`: of all tensors.
std::string model_index(const std::map<std::string, std::string>& files, std::int64_t bytes);

/// File of each tensor as an index of at most 64 MiB lists it, by parse_model_index(). Throws Failure(checkpoint)
/// naming the index.
std::map<std::string, std::string> read_model_index(const std::filesystem::path& index);

}  // namespace llmc
