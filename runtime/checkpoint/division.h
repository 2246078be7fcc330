// Assigns a checkpoint's tensors to files, and files to the ranks that write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/state_access.h"
#include "program/mesh.h"
#include "program/parameters.h"

namespace llmc {

/// A file of tensors: of each of its parameters the elements of those of buffers [first, past) that cover it.
struct TensorFile {
  std::string name;
  std::vector<ParameterInfo> parameters;
  std::size_t first = 0, past = 0;
  WorldRank owner = {};  // who writes it
};

/// The files of stored_parameters(), weights before what the optimizer keeps of the same, in the order in which every
/// rank goes through them, `rank` one of them. `shard_bytes`: of tensor data in a model file.
std::vector<TensorFile> tensor_files(std::span<const ParameterInfo> stored, std::size_t buffers, WorldRank rank,
                                     std::int64_t shard_bytes);

/// A tensor in a file: a parameter's elements of one buffer.
struct StoredTensor {
  std::size_t buffer;
  const ParameterInfo* parameter;
  ParameterInfo elements;  // parameter_in()
  DType dtype;

  std::size_t bytes() const { return static_cast<std::size_t>(bytes_of(dtype, flat_elements(elements))); }
};

/// The tensors of a file with their names, in the order of safetensors::layout(). `buffers`: StateAccess's.
std::vector<std::pair<std::string, StoredTensor>> tensors_of(const TensorFile& file,
                                                             std::span<const SavedBuffer> buffers);

}  // namespace llmc
