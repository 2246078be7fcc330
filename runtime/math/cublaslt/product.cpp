#include "math/cublaslt/product.h"

#include <cstdint>

#include "error.h"
#include "math/gemm_text.h"

namespace llmc {
namespace {

using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t type(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::bf16: return CUDA_R_16BF;
    case DType::f16: return CUDA_R_16F;
    case DType::e4m3: return CUDA_R_8F_E4M3;
    case DType::e5m2: return CUDA_R_8F_E5M2;
    case DType::dynamic8:
    case DType::udynamic8:
    case DType::rest:
    case DType::tie:
    case DType::i32:
    case DType::byte: break;
  }
  throw Failure(Exit::internal, std::string("no matrix product has elements of type ") + name_of(dtype));
}

template <class Value>
void set(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(operation, attribute, &value, sizeof value), "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

// Header and library can be of different versions of CUDA. The enumerators are in headers of 12.9 or later.
constexpr std::size_t kFirstWithRowScales = 120900;

/// Address that only tells the heuristics that a vector is there and how it is aligned. The real one comes with each
/// call. Not null without a workspace: the library then refuses to scale by rows.
const void* any_address(const MathLibrary::Impl& library) {
  return library.workspace ? library.workspace : reinterpret_cast<const void*>(std::uintptr_t{kArenaAlignment});
}

}  // namespace

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const bool machine = status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_ARCH_MISMATCH;
  throw Failure(machine ? Exit::toolchain : Exit::internal, cublaslt_version() + ": " + call + " says " +
                                                                cublasLtGetStatusName(status) + ", " +
                                                                cublasLtGetStatusString(status));
}

LtProduct::Layout LtProduct::transposed(const GemmMatrix& matrix) {
  Layout layout;
  check(cublasLtMatrixLayoutCreate(layout.put(), type(matrix.dtype), static_cast<std::uint64_t>(matrix.cols),
                                   static_cast<std::uint64_t>(matrix.rows), matrix.pitch),
        "cublasLtMatrixLayoutCreate");
  return layout;
}

LtProduct::LtProduct(MathLibrary::Impl& library, const GemmShape& shape) : library_(&library), shape_(shape) {
  if (shape.residual && shape.accumulates)
    throw Failure(Exit::toolchain, cublaslt_version() + " can add one matrix to a product, but " + text(shape) +
                                       " adds a residual and its previous result");
  check(cublasLtMatmulDescCreate(operation_.put(), shape.tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
                                 CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  if (library.sm_target > 0)
    set(operation_.get(), CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<std::int32_t>(library.sm_target));
  // Transposed storage is transposed in both views.
  set(operation_.get(), CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(operation_.get(), CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  a_ = transposed(shape.a());
  b_ = transposed(shape.b());
  c_ = transposed(shape.residual ? shape.c() : shape.d());
  d_ = transposed(shape.d());
  if (shape.bias) {  // one value per row of D^T
    set(operation_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type(shape.bias_dtype())));
    set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, any_address(library));
  }
  if (shape.fast_accumulation) set(operation_.get(), CUBLASLT_MATMUL_DESC_FAST_ACCUM, std::int8_t{1});
  if (shape.scaling == Scaling::rows) scale_by_rows();
  if (shape.scaling == Scaling::tensors) point_to_scales(any_address(library), any_address(library));
}

void LtProduct::point_to_scales(const void* of_a, const void* of_b) const {  // the library's A is the shape's B
  set(operation_.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, of_b);
  set(operation_.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, of_a);
}

void LtProduct::scale_by_rows() {
#if CUBLAS_VERSION >= 120900
  if (cublasLtGetVersion() >= kFirstWithRowScales) {
    for (const auto mode : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE})
      set(operation_.get(), mode, static_cast<std::int32_t>(CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F));
    return point_to_scales(any_address(*library_), any_address(*library_));
  }
#endif
  throw Failure(Exit::toolchain, cublaslt_version() + " has no scales of rows, as " + text(shape_) +
                                     " needs. Build and run the trainer with CUDA 12.9 or later");
}

std::vector<LtProduct::Algorithm> LtProduct::candidates(int most, std::size_t workspace_bytes) const {
  Preference preference;
  check(cublasLtMatmulPreferenceCreate(preference.put()), "cublasLtMatmulPreferenceCreate");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
  // Partial sums of a split k stay fp32 and are added in a fixed order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  // The library's A is the shape's B. A loss chunk's rows may begin at less than the arena's 256 bytes.
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape_.align_b);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape_.align_a);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, shape_.align_c);
  set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, shape_.align_d);

  std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(library_->handle, operation_.get(), b_.get(), a_.get(), c_.get(), d_.get(),
                                     preference.get(), most, results.data(), &found);
  std::vector<Algorithm> algorithms;
  for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < found; ++i)
    if (const auto& result = results[static_cast<std::size_t>(i)]; result.state == CUBLAS_STATUS_SUCCESS)
      algorithms.push_back({result.algo, result.workspaceSize});
  if (algorithms.empty())
    throw Failure(Exit::toolchain,
                  cublaslt_version() + " cannot multiply " + text(shape_) + " on sm_" +
                      std::to_string(library_->capability) + " within " + std::to_string(workspace_bytes >> 20) +
                      " MiB of workspace: " +
                      cublasLtGetStatusString(status == CUBLAS_STATUS_SUCCESS && found ? results[0].state : status));
  return algorithms;
}

std::optional<std::size_t> LtProduct::workspace_of(const cublasLtMatmulAlgo_t& algorithm) const {
  cublasLtMatmulHeuristicResult_t result = {};
  const cublasStatus_t status = cublasLtMatmulAlgoCheck(library_->handle, operation_.get(), b_.get(), a_.get(),
                                                        c_.get(), d_.get(), &algorithm, &result);
  if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS) return {};
  return result.workspaceSize;
}

cublasStatus_t LtProduct::launch(const cublasLtMatmulAlgo_t& algorithm, cudaStream_t stream,
                                 const GemmOperands& o) const {
  if (shape_.bias) set(operation_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, o.bias);
  if (shape_.scaling != Scaling::none) point_to_scales(o.scale_a, o.scale_b);
  const bool adds = o.accumulate || shape_.residual;
  const float beta = adds ? shape_.beta : 0.0f;
  return cublasLtMatmul(library_->handle, operation_.get(), &shape_.alpha, o.b, b_.get(), o.a, a_.get(), &beta,
                        shape_.residual ? o.c : o.d, c_.get(), o.d, d_.get(), &algorithm, library_->workspace,
                        library_->workspace_bytes, stream);
}

}  // namespace llmc
