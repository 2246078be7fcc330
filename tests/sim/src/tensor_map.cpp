// Maps of tensors, in the interface of the driver: those that llmc's kernels use, of bf16 in four dimensions.
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <string_view>

#include "cuda.h"
#include "cuda_runtime_api.h"
#include "encoded_map.h"

using namespace sim;

namespace {

CUresult encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* extents, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  if (type != CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 || rank != kMapRank || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
      swizzle != CU_TENSOR_MAP_SWIZZLE_128B || fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
    return CUDA_ERROR_NOT_SUPPORTED;
  // The driver's rules.
  bool valid = map && address && std::bit_cast<std::uint64_t>(address) % 16 == 0;
  for (int i = 0; valid && i < kMapRank; ++i)
    valid = extents[i] >= 1 && extents[i] <= std::uint64_t{1} << 32 && box[i] >= 1 && box[i] <= 256 && steps[i] == 1;
  for (int i = 0; valid && i < kMapRank - 1; ++i) valid = strides[i] % 16 == 0 && strides[i] < std::uint64_t{1} << 40;
  if (!valid || box[0] * 2 % 16 != 0 || box[0] * 2 > 128) return CUDA_ERROR_INVALID_VALUE;
  EncodedMap encoded = {};
  encoded.mark = kMapMark;
  encoded.address = std::bit_cast<std::uint64_t>(address);
  std::copy_n(extents, kMapRank, encoded.extents);
  std::copy_n(strides, kMapRank - 1, encoded.strides);
  std::copy_n(box, kMapRank, encoded.box);
  std::memcpy(map, &encoded, sizeof encoded);
  return CUDA_SUCCESS;
}

}  // namespace

cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned version, unsigned long long,
                                             cudaDriverEntryPointQueryResult* result) {
  const bool found = std::string_view(symbol) == "cuTensorMapEncodeTiled" && version >= 12000;
  *function = found ? reinterpret_cast<void*>(&encode_tiled) : nullptr;
  *result = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}
