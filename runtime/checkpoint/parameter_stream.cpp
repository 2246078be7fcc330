#include "checkpoint/parameter_stream.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "checkpoint/division.h"
#include "error.h"

namespace llmc {
namespace {

/// Elements on the host at once: 16 MiB, enough for full disk and PCIe speed.
constexpr std::int64_t kBlockElements = 4 << 20;

/// Calls block(row, col, rows, cols) over the whole tensor, in row-major order: many whole rows, or a piece of one.
template <class Block>
void for_each_block(const ParameterInfo& p, Block block) {
  if (p.pitch <= kBlockElements) {
    const std::int64_t step = kBlockElements / p.pitch;
    for (std::int64_t row = 0; row < p.rows; row += step) block(row, 0, std::min(step, p.rows - row), p.cols);
    return;
  }
  for (std::int64_t row = 0; row < p.rows; ++row)
    for (std::int64_t col = 0; col < p.cols; col += kBlockElements)
      block(row, col, 1, std::min(kBlockElements, p.cols - col));
}

/// IEEE 754's binary16 as fp32, exactly. No operand is a subnormal fp32, which the trainer's threads take for zero.
float from_binary16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  std::uint32_t magnitude = (rest << 13) + (112u << 23);  // the biases are 15 and 127
  if (rest < 0x400u) magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24f);
  if (rest >= 0x7c00u) magnitude = 0x7f800000u | (rest & 0x3ffu) << 13;
  return std::bit_cast<float>(sign | magnitude);
}

/// Elements of a file, F32, F16 or BF16, as fp32.
void widen(safetensors::Dtype dtype, const std::vector<char>& stored, std::vector<float>& values) {
  if (dtype == safetensors::Dtype::kF32) {
    std::memcpy(values.data(), stored.data(), stored.size());
    return;
  }
  const bool bf16 = dtype == safetensors::Dtype::kBF16;
  for (std::size_t i = 0; i < values.size(); ++i) {
    std::uint16_t bits;
    std::memcpy(&bits, stored.data() + i * sizeof bits, sizeof bits);
    values[i] = bf16 ? std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16) : from_binary16(bits);
  }
}

}  // namespace

std::vector<ParameterInfo> stored_parameters(std::span<const ParameterInfo> parameters) {
  constexpr std::string_view kHead = "lm_head.weight";
  std::map<std::int64_t, std::size_t> owners;  // offset -> index of the parameter that is stored
  for (std::size_t i = 0; i < parameters.size(); ++i)
    if (parameters[i].name != kHead) owners.emplace(parameters[i].offset, i);
  std::vector<ParameterInfo> stored;
  std::map<std::int64_t, const ParameterInfo*> by_offset;
  for (const ParameterInfo& p : parameters) {
    if (p.name == kHead && owners.count(p.offset) != 0) continue;
    if (p.rows < 1 || p.cols < 1 || p.pitch < p.cols || !by_offset.emplace(p.offset, &p).second)
      throw Failure(Exit::internal, std::string("parameter '") + p.name + "' has no elements of its own");
    stored.push_back(p);
  }
  std::int64_t end = 0;
  for (const auto& [offset, p] : by_offset) {
    if (offset < end) throw Failure(Exit::internal, std::string("parameter '") + p->name + "' overlaps another");
    end = offset + flat_elements(*p);
  }
  return stored;
}

safetensors::TensorSpec tensor_spec(const ParameterInfo& p, const std::string& prefix) {
  std::vector<std::int64_t> shape;
  if (p.matrix) shape.push_back(p.rows);
  shape.push_back(p.cols);
  return {prefix + p.name, safetensors::Dtype::kF32, std::move(shape)};
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

void write_parameter(safetensors::Writer& writer, const ParameterInfo& p, const FlatReader& read) {
  std::vector<float> block;
  for_each_block(p, [&](std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
    block.resize(static_cast<std::size_t>((rows - 1) * p.pitch + cols));
    read(p.offset + row * p.pitch + col, static_cast<std::int64_t>(block.size()), block.data());
    for (std::int64_t r = 1; r < rows && p.pitch != cols; ++r)
      std::memmove(block.data() + r * cols, block.data() + r * p.pitch, static_cast<std::size_t>(cols) * sizeof(float));
    writer.append(block.data(), static_cast<std::size_t>(rows * cols) * sizeof(float));
  });
}

void read_parameter(const safetensors::Reader& reader, const safetensors::Entry& entry, const ParameterInfo& p,
                    const FlatWriter& write, std::int64_t first) {
  const auto size = static_cast<std::size_t>(safetensors::dtype_bytes(entry.dtype));
  std::vector<char> stored;
  std::vector<float> dense, block;
  for_each_block(p, [&](std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
    dense.resize(static_cast<std::size_t>(rows * cols));
    stored.resize(dense.size() * size);
    reader.read(entry, static_cast<std::uint64_t>(first + row * p.cols + col) * size, stored.data(), stored.size());
    widen(entry.dtype, stored, dense);
    block.assign(static_cast<std::size_t>((rows - 1) * p.pitch + cols), 0.0f);
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(dense.data() + r * cols, cols, block.data() + r * p.pitch);
    write(p.offset + row * p.pitch + col, static_cast<std::int64_t>(block.size()), block.data());
  });
}

void write_parameters(const std::filesystem::path& path, std::span<const ParameterInfo> parameters,
                      const FlatSource& source) {
  std::vector<safetensors::TensorSpec> specs;
  std::map<std::string_view, const ParameterInfo*> by_name;  // the order of a file
  for (const ParameterInfo& p : parameters) {
    specs.push_back(tensor_spec(p, ""));
    by_name[p.name] = &p;
  }
  std::optional<safetensors::Writer> writer;
  if (!path.empty()) writer.emplace(path, specs);
  for (const auto& [name, p] : by_name) {
    source.gather(*p);
    if (writer) write_parameter(*writer, *p, source.read);
  }
  if (writer) writer->finish();
}

}  // namespace llmc
