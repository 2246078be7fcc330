// cuBLASLt's calls on the simulated device: descriptors, algorithms and their checks.
#include "cublasLt.h"

#include <cstdlib>
#include <cstring>
#include <string>

#include "eight_bits.h"
#include "guard.h"
#include "product.h"
#include "report.h"
#include "stream.h"

using namespace sim;

struct cublasLtContext {};

struct cublasLtMatmulPreferenceOpaque {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t reduction_schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t alignment[4] = {256, 256, 256, 256};  // of A, B, C, D
};

namespace {

using Layout = cublasLtMatrixLayoutOpaque;

/// Content of an algorithm's opaque bytes.
struct Algorithm {
  std::uint32_t id, tile, split_k, reduction_scheme, swizzling, custom, stages;
  std::uint16_t inner_shape, cluster_shape;
  std::uint32_t alignment[4];
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

Algorithm unpack(const cublasLtMatmulAlgo_t& packed) {
  Algorithm algorithm;
  std::memcpy(&algorithm, packed.data, sizeof algorithm);
  return algorithm;
}

cublasLtMatmulAlgo_t pack(const Algorithm& algorithm) {
  cublasLtMatmulAlgo_t packed = {};
  std::memcpy(packed.data, &algorithm, sizeof algorithm);
  return packed;
}

constexpr Summation kSummations[] = {Summation::ascending, Summation::halves, Summation::blocks};

bool known(std::uint32_t id) {
  for (const Summation summation : kSummations)
    if (static_cast<std::uint32_t>(summation) == id) return true;
  return false;
}

Algorithm default_algorithm(Summation summation) {
  const bool split = summation == Summation::halves;
  return {static_cast<std::uint32_t>(summation),
          1,
          split ? 2u : 1u,
          split ? std::uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE} : std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE},
          0,
          0,
          1,
          0,
          0,
          {16, 16, 16, 16}};
}

/// A GEMM split over k stores a partial result for each part, or LLMC_SIM_SPLIT_WORKSPACE_MIB if set; the others use a
/// little.
std::size_t workspace_of(const Algorithm& algorithm, const Layout& d) {
  if (algorithm.split_k <= 1) return 1024;
  if (const char* mebibytes = std::getenv("LLMC_SIM_SPLIT_WORKSPACE_MIB"))
    return std::strtoull(mebibytes, nullptr, 10) << 20;
  return algorithm.split_k * d.rows * d.cols * 4;
}

template <class T>
cublasStatus_t assign(T& to, const void* value, std::size_t bytes) {
  if (bytes != sizeof to) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&to, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// Checks that shapes and types match, as the library would.
cublasStatus_t check(const cublasLtMatmulDescOpaque& operation, const Layout& a, const Layout& b, const Layout& c,
                     const Layout& d) {
  const bool ta = operation.transpose_a == CUBLAS_OP_T, tb = operation.transpose_b == CUBLAS_OP_T;
  const std::uint64_t m = ta ? a.cols : a.rows, k = ta ? a.rows : a.cols;
  const std::uint64_t k_of_b = tb ? b.cols : b.rows, n = tb ? b.rows : b.cols;
  if (k != k_of_b || d.rows != m || d.cols != n || c.rows != m || c.cols != n) return CUBLAS_STATUS_INVALID_VALUE;
  if (!m || !n || !k) return CUBLAS_STATUS_INVALID_VALUE;
  for (const Layout* layout : {&a, &b, &c, &d}) {
    const std::uint64_t length = layout->order == CUBLASLT_ORDER_COL ? layout->rows : layout->cols;
    if (layout->ld < 0 || static_cast<std::uint64_t>(layout->ld) < length) return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (c.type != d.type || has_8_bits(d.type)) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (const cublasStatus_t status = check_scales(operation, a, b, c, d); status != CUBLAS_STATUS_SUCCESS) return status;
  if (has_8_bits(a.type) && has_8_bits(b.type)) return check_8_bits(operation, a, b, d);
  if (a.type != b.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (operation.tf32 && a.type != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (d.type != CUDA_R_32F && d.type != a.type) return CUBLAS_STATUS_NOT_SUPPORTED;
  return CUBLAS_STATUS_SUCCESS;
}

/// LLMC_SIM_WARM_MS: the algorithm `halves`, after running continuously this long, takes three times as long, until
/// another one runs.
double slowdown_when_warm(Summation summation, double milliseconds) {
  static Summation last = Summation::ascending;
  static double on_end = 0;
  const char* limit = std::getenv("LLMC_SIM_WARM_MS");
  on_end = summation == last ? on_end + milliseconds : milliseconds;
  last = summation;
  return limit && summation == Summation::halves && on_end > std::atof(limit) ? 3 : 1;
}

/// Simulated duration of a GEMM: 1 GFLOP/s, more or less by algorithm.
double milliseconds(const Product& p) {
  const std::uint64_t k = p.operation.transpose_a == CUBLAS_OP_T ? p.a.rows : p.a.cols;
  const double factor = p.summation == Summation::ascending ? 1
                        : p.summation == Summation::blocks  ? 0.99
                        : k >= 48                           ? 0.5
                                                            : 2;
  const double alone = factor * 2e-6 * static_cast<double>(p.d.rows * p.d.cols * k);
  return alone * slowdown_when_warm(p.summation, alone);
}

std::string text(const Product& p) {
  const bool transposed = p.operation.transpose_a == CUBLAS_OP_T;
  const auto type = [](cudaDataType_t t) {
    return std::string(t == CUDA_R_16BF      ? "bf16"
                       : t == CUDA_R_16F     ? "fp16"
                       : t == CUDA_R_8F_E4M3 ? "e4m3"
                       : t == CUDA_R_8F_E5M2 ? "e5m2"
                                             : "fp32");
  };
  const bool by_rows = p.operation.scale_a.mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
  const bool by_tensors = !by_rows && (p.operation.scale_a.values || p.operation.scale_b.values);
  return "product [" + std::to_string(p.d.rows) + ", " + std::to_string(p.d.cols) + ", " +
         std::to_string(transposed ? p.a.rows : p.a.cols) + "] " + (p.operation.tf32 ? "tf32" : type(p.a.type)) +
         (p.b.type != p.a.type ? " x " + type(p.b.type) : "") + " -> " + type(p.d.type) +
         (by_rows      ? " scaled by rows"
          : by_tensors ? " scaled by tensors"
                       : "") +
         (p.operation.fast_accumulation ? " with fast accumulation" : "") +
         (p.beta != 0 ? (p.c_data == p.d_data ? " += " : " + residual") : "") +
         (p.operation.sms ? " on " + std::to_string(p.operation.sms) + " SMs" : "");
}

struct StatusText {
  cublasStatus_t status;
  const char* name;
  const char* text;
};
#define LLMC_STATUS(status, text) {status, #status, text}
constexpr StatusText kStatuses[] = {
    LLMC_STATUS(CUBLAS_STATUS_SUCCESS, "the operation completed successfully"),
    LLMC_STATUS(CUBLAS_STATUS_INVALID_VALUE, "an unsupported value or parameter was passed to the function"),
    LLMC_STATUS(CUBLAS_STATUS_NOT_SUPPORTED, "the functionality requested is not supported"),
};

}  // namespace

extern "C" {

std::size_t cublasLtGetVersion() {
  const char* version = std::getenv("LLMC_SIM_CUBLASLT_VERSION");
  return version ? std::strtoull(version, nullptr, 10) : CUBLAS_VERSION;
}
const char* cublasLtGetStatusName(cublasStatus_t status) {
  for (const StatusText& known : kStatuses)
    if (known.status == status) return known.name;
  return "unknown status";
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  for (const StatusText& known : kStatuses)
    if (known.status == status) return known.text;
  return "unknown status";
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cublasLtContext;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType_t type, std::uint64_t rows,
                                          std::uint64_t cols, std::int64_t ld) {
  *layout = new cublasLtMatrixLayoutOpaque{type, rows, cols, ld, CUBLASLT_ORDER_COL};
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE: return assign(layout->type, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ORDER: return assign(layout->order, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_ROWS: return assign(layout->rows, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_COLS: return assign(layout->cols, value, bytes);
    case CUBLASLT_MATRIX_LAYOUT_LD: return assign(layout->ld, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* operation, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  if (scale != CUDA_R_32F) return CUBLAS_STATUS_NOT_SUPPORTED;
  *operation = new cublasLtMatmulDescOpaque;
  (*operation)->tf32 = compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) {
  delete operation;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return assign(operation->transpose_a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return assign(operation->transpose_b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return assign(operation->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return assign(operation->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return assign(operation->bias_type, value, bytes);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET: return assign(operation->sms, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return assign(operation->scale_a.values, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return assign(operation->scale_b.values, value, bytes);
    case CUBLASLT_MATMUL_DESC_C_SCALE_POINTER: return assign(operation->scale_c.values, value, bytes);
    case CUBLASLT_MATMUL_DESC_D_SCALE_POINTER: return assign(operation->scale_d.values, value, bytes);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM: return assign(operation->fast_accumulation, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE: return assign(operation->scale_a.mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE: return assign(operation->scale_b.mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_C_SCALE_MODE: return assign(operation->scale_c.mode, value, bytes);
    case CUBLASLT_MATMUL_DESC_D_SCALE_MODE: return assign(operation->scale_d.mode, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cublasLtMatmulPreferenceOpaque;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return assign(preference->workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return assign(preference->reduction_schemes, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return assign(preference->alignment[0], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return assign(preference->alignment[1], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return assign(preference->alignment[2], value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return assign(preference->alignment[3], value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t* results, int* found) {
  *found = 0;
  const cublasStatus_t status = check(*operation, *a, *b, *c, *d);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (has_8_bits(a->type))
    for (const std::uint32_t bytes : preference->alignment)
      if (bytes % 16) return CUBLAS_STATUS_NOT_SUPPORTED;
  for (const Summation summation : kSummations) {
    Algorithm algorithm = default_algorithm(summation);
    const std::size_t workspace = workspace_of(algorithm, *d);
    const bool allowed = !algorithm.reduction_scheme || (preference->reduction_schemes & algorithm.reduction_scheme);
    if (*found == requested || workspace > preference->workspace_bytes || !allowed) continue;
    std::memcpy(algorithm.alignment, preference->alignment, sizeof algorithm.alignment);
    results[(*found)++] = {pack(algorithm), workspace, CUBLAS_STATUS_SUCCESS, 1.0f, {}};
  }
  return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t, cublasComputeType_t, cudaDataType_t, cudaDataType_t,
                                      cudaDataType_t, cudaDataType_t, cudaDataType_t, int id,
                                      cublasLtMatmulAlgo_t* algorithm) {
  if (!known(static_cast<std::uint32_t>(id))) return CUBLAS_STATUS_INVALID_VALUE;
  *algorithm = pack(default_algorithm(static_cast<Summation>(id)));
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* packed, cublasLtMatmulHeuristicResult_t* result) {
  const Algorithm algorithm = unpack(*packed);
  cublasStatus_t status = check(*operation, *a, *b, *c, *d);
  if (status == CUBLAS_STATUS_SUCCESS && !known(algorithm.id)) status = CUBLAS_STATUS_NOT_SUPPORTED;
  *result = {*packed, status == CUBLAS_STATUS_SUCCESS ? workspace_of(algorithm, *d) : 0, status, 1.0f, {}};
  return status;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t* packed,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, void* value,
                                                    std::size_t bytes, std::size_t* written) {
  const Algorithm algorithm = unpack(*packed);
  const auto give = [&](const auto& field) {
    if (written) *written = sizeof field;
    if (bytes < sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
    std::memcpy(value, &field, sizeof field);
    return CUBLAS_STATUS_SUCCESS;
  };
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID: return give(algorithm.id);
    case CUBLASLT_ALGO_CONFIG_TILE_ID: return give(algorithm.tile);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return give(algorithm.split_k);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: return give(algorithm.reduction_scheme);
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING: return give(algorithm.swizzling);
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION: return give(algorithm.custom);
    case CUBLASLT_ALGO_CONFIG_STAGES_ID: return give(algorithm.stages);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID: return give(algorithm.inner_shape);
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID: return give(algorithm.cluster_shape);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t* packed,
                                                    cublasLtMatmulAlgoConfigAttributes_t attribute, const void* value,
                                                    std::size_t bytes) {
  Algorithm algorithm = unpack(*packed);
  const auto take = [&](auto& field) {
    const cublasStatus_t status = assign(field, value, bytes);
    *packed = pack(algorithm);
    return status;
  };
  switch (attribute) {
    case CUBLASLT_ALGO_CONFIG_ID: return CUBLAS_STATUS_INVALID_VALUE;  // identifies the algorithm
    case CUBLASLT_ALGO_CONFIG_TILE_ID: return take(algorithm.tile);
    case CUBLASLT_ALGO_CONFIG_SPLITK_NUM: return take(algorithm.split_k);
    case CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME: return take(algorithm.reduction_scheme);
    case CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING: return take(algorithm.swizzling);
    case CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION: return take(algorithm.custom);
    case CUBLASLT_ALGO_CONFIG_STAGES_ID: return take(algorithm.stages);
    case CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID: return take(algorithm.inner_shape);
    case CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID: return take(algorithm.cluster_shape);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* packed, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
  const Guard guard;
  const cublasStatus_t status = check(*operation, *a_layout, *b_layout, *c_layout, *d_layout);
  if (status != CUBLAS_STATUS_SUCCESS) return status;
  const Algorithm algorithm = packed ? unpack(*packed) : default_algorithm(Summation::ascending);
  if (!known(algorithm.id) || workspace_bytes < workspace_of(algorithm, *d_layout)) return CUBLAS_STATUS_INVALID_VALUE;
  Product product = {*operation, *a_layout, *b_layout, *c_layout, *d_layout};
  product.alpha = *static_cast<const float*>(alpha);
  product.beta = *static_cast<const float*>(beta);
  product.a_data = a;
  product.b_data = b;
  product.c_data = c;
  product.d_data = d;
  product.workspace = workspace;
  product.workspace_bytes = workspace_of(algorithm, *d_layout);
  product.summation = static_cast<Summation>(algorithm.id);
  const void* const addresses[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<std::uintptr_t>(addresses[i]) % algorithm.alignment[i])
      report(text(product) + ": " + "ABCD"[i] + " is not aligned to the " + std::to_string(algorithm.alignment[i]) +
             " bytes that its algorithm was chosen for");
  if (const std::string both = overlap(product); !both.empty()) report(text(product) + ": " + both);
  enqueue(stream_of(stream), text(product), [product] {
    spend(milliseconds(product));
    run(product);
  });
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
