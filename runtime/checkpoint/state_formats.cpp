#include "checkpoint/state_formats.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "device/dynamic_map.h"

namespace llmc {
namespace {

/// Elements on the host at once: whole blocks.
constexpr std::int64_t kElements = 1 << 20;

template <class Code, class Part>
void round(const std::vector<float>& numbers, std::vector<std::byte>& codes, std::vector<float>& scales, Part part) {
  for (std::size_t begin = 0, block = 0; begin < numbers.size(); begin += kStateBlock, ++block) {
    const std::size_t end = std::min(numbers.size(), begin + kStateBlock);
    float largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(numbers[i]));
    const BlockScale scale(largest);
    scales[block] = scale.scale;
    for (std::size_t i = begin; i < end; ++i)
      codes[i] = static_cast<std::byte>(from_float<Code>(part(scale, numbers[i])).bits);
  }
}

void round(DType dtype, const std::vector<float>& numbers, std::vector<std::byte>& codes, std::vector<float>& scales) {
  if (dtype == DType::dynamic8)
    round<dynamic8>(numbers, codes, scales, [](const BlockScale& s, float v) { return s.signed_part(v); });
  else
    round<udynamic8>(numbers, codes, scales, [](const BlockScale& s, float v) { return s.unsigned_part(v); });
}

float number_of(DType dtype, std::byte code) {
  const auto bits = static_cast<unsigned char>(code);
  return dtype == DType::dynamic8 ? to_float(dynamic8{bits}) : to_float(udynamic8{bits});
}

}  // namespace

std::string scale_prefix(const std::string& prefix) { return prefix.substr(0, prefix.size() - 1) + kScaleSuffix + "."; }

void quantise_moment(const safetensors::Reader& reader, const safetensors::Entry& entry, const ParameterInfo& p,
                     StateAccess& access, std::size_t codes, std::size_t scales) {
  const DType dtype = access.buffers()[codes].dtype;
  const std::int64_t elements = p.rows * p.cols;
  std::vector<float> numbers, of_blocks;
  std::vector<std::byte> rounded;
  for (std::int64_t at = 0; at < elements; at += kElements) {
    const std::int64_t count = std::min(kElements, elements - at), blocks = in_blocks(count, kStateBlock);
    numbers.resize(static_cast<std::size_t>(count));
    rounded.resize(numbers.size());
    of_blocks.resize(static_cast<std::size_t>(blocks));
    reader.read(entry, static_cast<std::uint64_t>(at) * sizeof(float), numbers.data(), numbers.size() * sizeof(float));
    round(dtype, numbers, rounded, of_blocks);
    access.write(codes, p.offset + at, count, rounded.data());
    access.write(scales, (p.offset + at) / kStateBlock, blocks, std::as_bytes(std::span(of_blocks)).data());
  }
}

std::vector<float> read_scales(const safetensors::Reader& reader, const safetensors::Entry& entry) {
  std::vector<float> scales(static_cast<std::size_t>(entry.bytes()) / sizeof(float));
  reader.read(entry, 0, scales.data(), scales.size() * sizeof(float));
  return scales;
}

void dequantise(DType dtype, const std::byte* codes, const std::vector<float>& scales, std::int64_t first,
                std::int64_t count, float* numbers) {
  for (std::int64_t i = 0; i < count; ++i)
    numbers[i] = number_of(dtype, codes[i]) * scales[static_cast<std::size_t>((first + i) / kStateBlock)];
}

void dequantise_moment(const CodesEntry& entry, const ParameterInfo& p, StateAccess& access, std::size_t buffer) {
  const std::vector<float> scales = read_scales(*entry.reader, *entry.scales);
  const std::int64_t step = std::max<std::int64_t>(kElements / p.pitch, 1);
  std::vector<std::byte> codes;
  std::vector<float> numbers;
  for (std::int64_t row = 0; row < p.rows; row += step) {
    const std::int64_t rows = std::min(step, p.rows - row);
    codes.resize(static_cast<std::size_t>(rows * p.cols));
    entry.reader->read(*entry.codes, static_cast<std::uint64_t>(row * p.cols), codes.data(), codes.size());
    numbers.assign(static_cast<std::size_t>((rows - 1) * p.pitch + p.cols), 0.0f);
    for (std::int64_t r = 0; r < rows; ++r)
      dequantise(entry.dtype, codes.data() + r * p.cols, scales, (row + r) * p.cols, p.cols,
                 numbers.data() + r * p.pitch);
    access.write(buffer, p.offset + row * p.pitch, static_cast<std::int64_t>(numbers.size()),
                 std::as_bytes(std::span(numbers)).data());
  }
}

}  // namespace llmc
