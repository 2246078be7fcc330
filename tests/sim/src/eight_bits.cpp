#include "eight_bits.h"

#include <cstdint>

namespace sim {
namespace {

using Layout = cublasLtMatrixLayoutOpaque;

constexpr std::uint64_t kMultiple = 16;       // bytes
constexpr std::size_t kFirstOfRows = 120900;  // version that scales rows

int capability() {
  int device = 0, major = 0, minor = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  return 10 * major + minor;
}

/// Only the generation of 10.0 reads operands of any layout.
bool needs_tn(int capability) { return capability / 10 != 10; }

bool of_rows(const Scales& scales) { return scales.mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F; }

}  // namespace

cublasStatus_t check_scales(const cublasLtMatmulDescOpaque& operation, const Layout& a, const Layout& b,
                            const Layout& c, const Layout& d) {
  struct Scaled {
    const Scales& scales;
    const Layout& layout;
  };
  for (const auto& [scales, layout] : {Scaled{operation.scale_a, a}, Scaled{operation.scale_b, b},
                                       Scaled{operation.scale_c, c}, Scaled{operation.scale_d, d}}) {
    const bool scalar = scales.mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
    if ((scales.values || !scalar) && !has_8_bits(layout.type)) return CUBLAS_STATUS_INVALID_VALUE;
    if (reinterpret_cast<std::uintptr_t>(scales.values) % kMultiple) return CUBLAS_STATUS_INVALID_VALUE;
    if (!scalar && !scales.values) return CUBLAS_STATUS_INVALID_VALUE;
    if (!scalar && !of_rows(scales)) return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  if (of_rows(operation.scale_a) != of_rows(operation.scale_b)) return CUBLAS_STATUS_INVALID_VALUE;
  if (of_rows(operation.scale_a) && (capability() != 90 || cublasLtGetVersion() < kFirstOfRows))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t check_8_bits(const cublasLtMatmulDescOpaque& operation, const Layout& a, const Layout& b,
                            const Layout& d) {
  constexpr cublasStatus_t kRefused = CUBLAS_STATUS_NOT_SUPPORTED;
  if (capability() < 89) return kRefused;
  if (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2) return kRefused;
  for (const Layout* layout : {&a, &b, &d})
    if (layout->order != CUBLASLT_ORDER_COL) return kRefused;
  const bool ta = operation.transpose_a == CUBLAS_OP_T, tb = operation.transpose_b == CUBLAS_OP_T;
  if (needs_tn(capability()) && (!ta || tb)) return kRefused;
  // The rows of a stored matrix, and the distance from column to column; K is one of A's.
  for (const Layout* layout : {&a, &b, &d})
    for (const std::uint64_t length : {layout->rows, static_cast<std::uint64_t>(layout->ld)})
      if (length * element_bytes(layout->type) % kMultiple) return kRefused;
  if ((ta ? a.rows : a.cols) % kMultiple) return kRefused;
  if (operation.epilogue == CUBLASLT_EPILOGUE_BIAS && operation.bias_type != CUDA_R_16BF) return kRefused;
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace sim
