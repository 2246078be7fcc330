#include "checkpoint/stored_numbers.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "error.h"

namespace llmc {
namespace {

/// IEEE 754's binary16 as fp32, exactly. No operand is a subnormal fp32, which the trainer's threads take for zero.
float from_binary16(std::uint16_t bits) {
  const std::uint32_t sign = (bits & 0x8000u) << 16, rest = bits & 0x7fffu;
  std::uint32_t magnitude = (rest << 13) + (112u << 23);  // the biases are 15 and 127
  if (rest < 0x400u) magnitude = std::bit_cast<std::uint32_t>(static_cast<float>(rest) * 0x1p-24f);
  if (rest >= 0x7c00u) magnitude = 0x7f800000u | (rest & 0x3ffu) << 13;
  return std::bit_cast<float>(sign | magnitude);
}

float from_bf16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

template <class Stored, class Number>
void each(std::span<const std::byte> stored, std::span<float> values, Number number) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    Stored element;
    std::memcpy(&element, stored.data() + i * sizeof element, sizeof element);
    values[i] = number(element);
  }
}

}  // namespace

safetensors::Dtype stored_type(DType dtype) {
  switch (dtype) {
    case DType::f32: return safetensors::Dtype::kF32;
    case DType::bf16: return safetensors::Dtype::kBF16;
    case DType::e4m3: return safetensors::Dtype::kF8E4M3;
    case DType::e5m2: return safetensors::Dtype::kF8E5M2;
    case DType::dynamic8:
    case DType::udynamic8: return safetensors::Dtype::kU8;
    case DType::i32: return safetensors::Dtype::kI32;
    case DType::byte: return safetensors::Dtype::kU8;
    case DType::rest:
    case DType::tie: break;  // in files masters are joined
  }
  throw Failure(Exit::internal, "safetensors have no dtype for these elements");
}

void widen(safetensors::Dtype dtype, std::span<const std::byte> stored, std::span<float> values) {
  const auto number = [](auto element) { return static_cast<float>(element); };
  switch (dtype) {
    case safetensors::Dtype::kF32: return std::memcpy(values.data(), stored.data(), stored.size()), void();
    case safetensors::Dtype::kF16: return each<std::uint16_t>(stored, values, from_binary16);
    case safetensors::Dtype::kBF16: return each<std::uint16_t>(stored, values, from_bf16);
    case safetensors::Dtype::kU8: return each<std::uint8_t>(stored, values, number);
    case safetensors::Dtype::kI32: return each<std::int32_t>(stored, values, number);
    default:
      throw Failure(Exit::internal,
                    "elements of type " + std::string(safetensors::dtype_name(dtype)) + " are not numbers");
  }
}

}  // namespace llmc
