#include "checkpoint/stored_numbers.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>

#include "device/math.h"
#include "error.h"

namespace llmc {
namespace {

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
    case DType::f16: return safetensors::Dtype::kF16;
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
    case safetensors::Dtype::kF16: return each<fp16>(stored, values, [](fp16 number) { return to_float(number); });
    case safetensors::Dtype::kBF16: return each<std::uint16_t>(stored, values, from_bf16);
    case safetensors::Dtype::kU8: return each<std::uint8_t>(stored, values, number);
    case safetensors::Dtype::kI32: return each<std::int32_t>(stored, values, number);
    default:
      throw Failure(Exit::internal,
                    "elements of type " + std::string(safetensors::dtype_name(dtype)) + " are not numbers");
  }
}

}  // namespace llmc
