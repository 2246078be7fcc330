// Streams parameters between the device's padded flat buffers and dense tensors in files, in blocks of bounded size.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "program/dtype.h"
#include "program/parameters.h"

namespace llmc {

/// Copies `count` elements from element `offset` of a flat buffer to host memory, or back.
using FlatReader = std::function<void(std::int64_t offset, std::int64_t count, std::byte* out)>;
using FlatWriter = std::function<void(std::int64_t offset, std::int64_t count, const std::byte* values)>;

/// A flat fp32 buffer that may need gathering: `gather` collects a parameter's elements for `read`, and is called on
/// every rank in the same order.
struct FlatSource {
  std::function<void(const ParameterInfo&)> gather;
  FlatReader read;
};

/// Parameters stored in files, in order: an lm_head.weight that shares another parameter's elements (tied embeddings)
/// is omitted. Throws Failure(internal) if any two others overlap.
std::vector<ParameterInfo> stored_parameters(std::span<const ParameterInfo> parameters);

/// Under PREFIX + name; [rows, cols] for matrices, [cols] for vectors.
safetensors::TensorSpec tensor_spec(const ParameterInfo& parameter, const std::string& prefix = "",
                                    DType dtype = DType::f32);

/// Shape as text: "[4096, 256]".
std::string shape_text(std::span<const std::int64_t> shape);

/// Appends the parameter's logical elements, of this type, to the writer, whose turn it must be.
void write_parameter(safetensors::Writer& writer, const ParameterInfo& parameter, DType dtype, const FlatReader& read);

/// Reads the parameter's elements from a tensor that holds them in this type and order; padding between its rows
/// becomes zero.
void read_parameter(const safetensors::Reader& reader, const safetensors::Entry& entry, const ParameterInfo& parameter,
                    DType dtype, const FlatWriter& write);

/// The same, as fp32, from a tensor of F32, F16 or BF16 that holds them from its element `first` on.
void read_weights(const safetensors::Reader& reader, const safetensors::Entry& entry, const ParameterInfo& parameter,
                  std::int64_t first, const std::function<void(std::int64_t, std::span<const float>)>& write);

/// Writes a file of the given parameters under their own names. An empty `path` means that this rank writes none and
/// only takes part in gathering.
void write_parameters(const std::filesystem::path& path, std::span<const ParameterInfo> parameters,
                      const FlatSource& source);

}  // namespace llmc
