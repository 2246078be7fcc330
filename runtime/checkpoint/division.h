// Which files hold the tensors of a checkpoint, and which rank writes each.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "program/mesh.h"
#include "program/parameters.h"

namespace llmc {

/// A file of tensors: of each of its parameters the elements of buffers [first, past) of a training state.
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

/// A tensor of a file: a parameter's elements of a buffer.
struct StoredTensor {
  std::size_t buffer;
  const ParameterInfo* parameter;
};

/// The tensors of a file by name, which is their order in it. `prefixes`: StateAccess's.
std::map<std::string, StoredTensor> tensors_of(const TensorFile& file, std::span<const std::string> prefixes);

/// Elements from a parameter's first to its last in a flat buffer, the padding between rows included.
std::int64_t flat_elements(const ParameterInfo& parameter);

}  // namespace llmc
