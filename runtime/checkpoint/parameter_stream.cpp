#include "checkpoint/parameter_stream.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <string_view>

#include "checkpoint/stored_numbers.h"
#include "error.h"

namespace llmc {
namespace {

/// Elements on the host at once: 16 MiB, enough for full disk and PCIe speed.
constexpr std::int64_t kBlockElements = 4 << 20;

/// Calls block(row, col, rows, cols) over the whole tensor in row-major order: many whole rows, or a part of one.
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

/// Rows of `cols` elements of `size` bytes each, `pitch` apart, end to end.
void pack_rows(std::vector<std::byte>& block, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
               std::size_t size) {
  const auto bytes = [size](std::int64_t elements) { return static_cast<std::size_t>(elements) * size; };
  for (std::int64_t r = 1; r < rows && pitch != cols; ++r)
    std::memmove(block.data() + bytes(r * cols), block.data() + bytes(r * pitch), bytes(cols));
  block.resize(bytes(rows * cols));
}

/// The reverse, with zeros between the rows.
void spread_rows(std::vector<std::byte>& block, std::int64_t rows, std::int64_t cols, std::int64_t pitch,
                 std::size_t size) {
  const auto bytes = [size](std::int64_t elements) { return static_cast<std::size_t>(elements) * size; };
  block.resize(bytes((rows - 1) * pitch + cols));
  for (std::int64_t r = rows - 1; r > 0 && pitch != cols; --r) {
    std::memmove(block.data() + bytes(r * pitch), block.data() + bytes(r * cols), bytes(cols));
    std::memset(block.data() + bytes((r - 1) * pitch + cols), 0, bytes(pitch - cols));
  }
}

}  // namespace

std::vector<ParameterInfo> stored_parameters(std::span<const ParameterInfo> parameters) {
  constexpr std::string_view kHead = "lm_head.weight";
  std::map<std::int64_t, std::size_t> owners;  // offset -> index of the stored parameter
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

safetensors::TensorSpec tensor_spec(const ParameterInfo& p, const std::string& prefix, DType dtype) {
  std::vector<std::int64_t> shape;
  if (p.matrix) shape.push_back(p.rows);
  shape.push_back(p.cols);
  return {prefix + p.name, stored_type(dtype), std::move(shape)};
}

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(extent);
  }
  return text + "]";
}

void write_parameter(safetensors::Writer& writer, const ParameterInfo& p, DType dtype, const FlatReader& read) {
  const auto size = static_cast<std::size_t>(bytes_of(dtype, 1));
  std::vector<std::byte> block;
  for_each_block(p, [&](std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
    const std::int64_t elements = (rows - 1) * p.pitch + cols;
    block.resize(static_cast<std::size_t>(elements) * size);
    read(p.offset + row * p.pitch + col, elements, block.data());
    pack_rows(block, rows, cols, p.pitch, size);
    writer.append(block.data(), block.size());
  });
}

void read_parameter(const safetensors::Reader& reader, const safetensors::Entry& entry, const ParameterInfo& p,
                    DType dtype, const FlatWriter& write) {
  const auto size = static_cast<std::size_t>(bytes_of(dtype, 1));
  std::vector<std::byte> block;
  for_each_block(p, [&](std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
    block.resize(static_cast<std::size_t>(rows * cols) * size);
    reader.read(entry, static_cast<std::uint64_t>(row * p.cols + col) * size, block.data(), block.size());
    spread_rows(block, rows, cols, p.pitch, size);
    write(p.offset + row * p.pitch + col, (rows - 1) * p.pitch + cols, block.data());
  });
}

void read_weights(const safetensors::Reader& reader, const safetensors::Entry& entry, const ParameterInfo& p,
                  std::int64_t first, const std::function<void(std::int64_t, std::span<const float>)>& write) {
  const auto size = static_cast<std::size_t>(safetensors::dtype_bytes(entry.dtype));
  std::vector<std::byte> stored;
  std::vector<float> dense, block;
  for_each_block(p, [&](std::int64_t row, std::int64_t col, std::int64_t rows, std::int64_t cols) {
    dense.resize(static_cast<std::size_t>(rows * cols));
    stored.resize(dense.size() * size);
    reader.read(entry, static_cast<std::uint64_t>(first + row * p.cols + col) * size, stored.data(), stored.size());
    widen(entry.dtype, stored, dense);
    block.assign(static_cast<std::size_t>((rows - 1) * p.pitch + cols), 0.0f);
    for (std::int64_t r = 0; r < rows; ++r) std::copy_n(dense.data() + r * cols, cols, block.data() + r * p.pitch);
    write(p.offset + row * p.pitch + col, block);
  });
}

void write_parameters(const std::filesystem::path& path, std::span<const ParameterInfo> parameters,
                      const FlatSource& source) {
  std::vector<safetensors::TensorSpec> specs;
  std::map<std::string_view, const ParameterInfo*> by_name;  // order within a file
  for (const ParameterInfo& p : parameters) {
    specs.push_back(tensor_spec(p));
    by_name[p.name] = &p;
  }
  std::optional<safetensors::Writer> writer;
  if (!path.empty()) writer.emplace(path, specs);
  for (const auto& [name, p] : by_name) {
    source.gather(*p);
    if (writer) write_parameter(*writer, *p, DType::f32, source.read);
  }
  if (writer) writer->finish();
}

}  // namespace llmc
