#include "device/cuda/tile_map.h"

#include <cuda.h>

#include <bit>
#include <cstddef>
#include <string>

#include "device/cuda/check.h"
#include "error.h"

namespace llmc {
namespace {

/// The driver's function, which is found at run time: machines that build trainers may have no driver.
decltype(&cuTensorMapEncodeTiled) encoder() {
  void* function = nullptr;
  cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found),
        "cudaGetDriverEntryPointByVersion");
#else
  check(cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found),
        "cudaGetDriverEntryPoint");
#endif
  if (found != cudaDriverEntryPointSuccess || !function)
    throw Failure(
        Exit::toolchain,
        "the driver has no maps of tensors (cuTensorMapEncodeTiled), which attention in clusters needs. Install "
        "the driver of CUDA 12.0 or later");
  return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
}

}  // namespace

TileMap map_of_heads(const bf16* data, int sequences, int tokens, int heads, int width, int pitch, int rows) {
  static const auto encode = encoder();
  static_assert(sizeof(TileMap) == sizeof(CUtensorMap));
  // From the fastest dimension on: columns of a head, heads of a token, tokens of a sequence, sequences. Strides, in
  // bytes, are of all but the first.
  const auto number = [](auto v) { return static_cast<cuuint64_t>(v); };
  const cuuint64_t extents[] = {number(width), number(heads), number(tokens), number(sequences)};
  const cuuint64_t strides[] = {number(width) * 2, number(pitch) * 2, number(pitch) * 2 * number(tokens)};
  const cuuint32_t box[] = {64, 1, static_cast<cuuint32_t>(rows), 1}, steps[] = {1, 1, 1, 1};
  CUtensorMap map;
  const CUresult result = encode(&map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4, const_cast<bf16*>(data), extents, strides,
                                 box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                 CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS)
    throw Failure(Exit::internal, "cuTensorMapEncodeTiled refuses heads of " + std::to_string(width) + " in rows of " +
                                      std::to_string(pitch) + ": error " + std::to_string(result));
  return std::bit_cast<TileMap>(map);
}

}  // namespace llmc
