// Lists the element types of tensors, for specs, graphs, GEMMs and reports.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace llmc {

enum class DType : std::uint8_t { f32, bf16, f16, e4m3, e5m2, dynamic8, udynamic8, rest, tie, i32, byte };

struct DTypeRow {
  DType type;
  int bits;            // bits per element
  const char* name;    // in specs, reports and --dump-ir
  const char* c_name;  // in emitted sources (device/types.h)
  const char* torch;   // in config.json
  double roundoff;     // half the distance from 1 to the next larger number; 0: integers
};

/// In the order of DType. A dtype without a row does not compile.
inline constexpr auto kDTypes = std::to_array<DTypeRow>({
    {DType::f32, 32, "fp32", "float", "float32", 0x1p-24},
    {DType::bf16, 16, "bf16", "bf16", "bfloat16", 0x1p-8},
    {DType::f16, 16, "fp16", "fp16", "float16", 0x1p-11},
    {DType::e4m3, 8, "e4m3", "e4m3", "float8_e4m3fn", 0x1p-4},
    {DType::e5m2, 8, "e5m2", "e5m2", "float8_e5m2", 0x1p-3},
    {DType::dynamic8, 8, "dynamic8", "dynamic8", "uint8", 0},
    {DType::udynamic8, 8, "udynamic8", "udynamic8", "uint8", 0},
    // Of split masters, which are fp32 (device/split.h).
    {DType::rest, 16, "rest16", "rest16", "uint16", 0x1p-24},
    {DType::tie, 1, "tie", "ties8", "bool", 0},
    {DType::i32, 32, "i32", "int", "int32", 0},
    {DType::byte, 8, "bytes", "std::byte", "uint8", 0},
});
static_assert(kDTypes.size() == static_cast<std::size_t>(DType::byte) + 1, "a row for each DType");

constexpr const DTypeRow& row_of(DType type) { return kDTypes[static_cast<std::size_t>(type)]; }
constexpr const char* name_of(DType type) { return row_of(type).name; }

/// Whether elements are codes of 8 bits, to which a scale belongs.
constexpr bool has_codes(DType type) { return type == DType::e4m3 || type == DType::e5m2; }

/// Whether elements are codes of the dynamic map, which a scale for each block multiplies (device/dynamic_map.h).
constexpr bool is_dynamic(DType type) { return type == DType::dynamic8 || type == DType::udynamic8; }

/// Bytes of `elements` contiguous elements, rounded up to a whole byte.
constexpr std::int64_t bytes_of(DType type, std::int64_t elements) { return (elements * row_of(type).bits + 7) / 8; }

/// Elements in 16 bytes, the widest access of a kernel.
constexpr std::int64_t vector_of(DType type) { return 128 / row_of(type).bits; }

}  // namespace llmc
