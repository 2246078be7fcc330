#include "math/gemm.h"

#include <cublasLt.h>

#include <string>
#include <utility>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "device/range.h"
#include "error.h"
#include "math/cublaslt/library.h"

namespace llmc {
namespace {

void check(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  const bool machine = status == CUBLAS_STATUS_NOT_INITIALIZED || status == CUBLAS_STATUS_ARCH_MISMATCH;
  throw Failure(machine ? Exit::toolchain : Exit::internal, cublaslt_version() + ": " + call + " says " +
                                                                cublasLtGetStatusName(status) + ", " +
                                                                cublasLtGetStatusString(status));
}

/// Owns one of cuBLASLt's descriptors.
template <class Handle, cublasStatus_t (*kDestroy)(Handle)>
class Owned {
 public:
  Owned() = default;
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_) kDestroy(handle_);
  }
  Handle get() const { return handle_; }
  Handle* put() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};

using Layout = Owned<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using Operation = Owned<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using Preference = Owned<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

cudaDataType_t type(DType dtype) { return dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F; }

const char* name(DType dtype) { return dtype == DType::bf16 ? "bf16" : "fp32"; }

std::string text(const GemmShape& shape) {
  return shape.name + std::string(" [m ") + std::to_string(shape.m) + ", n " + std::to_string(shape.n) + ", k " + std::to_string(shape.k) + "]" +
         (shape.transpose_a ? " with A transposed" : "") + (shape.transpose_b ? " with B transposed" : "") +
         (shape.bias ? ", bias" : "") + (shape.residual ? ", residual" : "") + " in " + name(shape.operand) + " -> " +
         name(shape.result);
}

/// A row-major [rows, cols] matrix is a column-major [cols, rows] one, which is what cuBLASLt's fast paths know.
Layout transposed(std::int64_t rows, std::int64_t cols, std::int64_t pitch, DType dtype) {
  Layout layout;
  check(cublasLtMatrixLayoutCreate(layout.put(), type(dtype), static_cast<std::uint64_t>(cols),
                                   static_cast<std::uint64_t>(rows), pitch),
        "cublasLtMatrixLayoutCreate");
  return layout;
}

template <class Value>
void set(const Operation& operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}

template <class Value>
void set(const Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

}  // namespace

std::string cublaslt_version() {
  const std::size_t version = cublasLtGetVersion();  // 130100: 13.1.0
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

MathLibrary::MathLibrary(Device&, void* workspace, std::size_t workspace_bytes) : impl_(std::make_unique<Impl>()) {
  check(cublasLtCreate(&impl_->handle), "cublasLtCreate");
  impl_->workspace = workspace;
  impl_->workspace_bytes = workspace_bytes;
  int index = 0, major = 0, minor = 0;
  llmc::check(cudaGetDevice(&index), "cudaGetDevice");
  llmc::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index), "cudaDeviceGetAttribute");
  llmc::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index), "cudaDeviceGetAttribute");
  impl_->capability = 10 * major + minor;
}

MathLibrary::~MathLibrary() = default;

struct Gemm::Impl {
  MathLibrary::Impl* library;
  GemmShape shape;
  Operation operation;
  Layout a, b, d;                  // the row-major operands as column-major ones; C has D's layout
  cublasLtMatmulAlgo_t algorithm;  // for every beta: the heuristics are told the layouts of C and D, not beta

  cublasLtMatmulAlgo_t choose() const;
};

/// The heuristics' first choice.
cublasLtMatmulAlgo_t Gemm::Impl::choose() const {
  Preference preference;
  check(cublasLtMatmulPreferenceCreate(preference.put()), "cublasLtMatmulPreferenceCreate");
  set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, library->workspace_bytes);
  // Partial sums of a split k stay fp32 and are added in one order.
  set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  // Rows are padded to 16 bytes, and chunks of a tensor begin at a row. The default promises 256.
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    set(preference, attribute, std::uint32_t{16});

  cublasLtMatmulHeuristicResult_t result = {};
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(library->handle, operation.get(), b.get(), a.get(),
                                                               d.get(), d.get(), preference.get(), 1, &result, &found);
  if (status != CUBLAS_STATUS_SUCCESS || found == 0 || result.state != CUBLAS_STATUS_SUCCESS)
    throw Failure(
        Exit::toolchain,
        cublaslt_version() + " cannot multiply " + text(shape) + " on sm_" + std::to_string(library->capability) +
            " within " + std::to_string(library->workspace_bytes >> 20) +
            " MiB of workspace: " + cublasLtGetStatusString(status == CUBLAS_STATUS_SUCCESS ? result.state : status));
  return result.algo;
}

Gemm::Gemm(MathLibrary& library, const GemmShape& shape) : impl_(std::make_unique<Impl>()) {
  Impl& impl = *impl_;
  impl.library = &library.impl();
  impl.shape = shape;
  if (shape.residual && shape.accumulates)
    throw Failure(Exit::toolchain, cublaslt_version() + " adds one matrix to a product, and " + text(shape) +
                                       " wants a residual and its own result");
  // D^T = op(B)^T op(A)^T: the operands change places, and what is stored transposed is so in both views.
  check(cublasLtMatmulDescCreate(impl.operation.put(), CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
  set(impl.operation, CUBLASLT_MATMUL_DESC_TRANSA, shape.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(impl.operation, CUBLASLT_MATMUL_DESC_TRANSB, shape.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  impl.a = shape.transpose_a ? transposed(shape.k, shape.m, shape.pitch_a, shape.operand)
                             : transposed(shape.m, shape.k, shape.pitch_a, shape.operand);
  impl.b = shape.transpose_b ? transposed(shape.n, shape.k, shape.pitch_b, shape.operand)
                             : transposed(shape.k, shape.n, shape.pitch_b, shape.operand);
  impl.d = transposed(shape.m, shape.n, shape.pitch_d, shape.result);
  if (shape.bias) {
    // One value for each row of D^T. The address tells the heuristics the alignment: the real one comes with each call.
    set(impl.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(impl.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(type(shape.result)));
    set(impl.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(impl.library->workspace));
  }
  impl.algorithm = impl.choose();
}

Gemm::Gemm(Gemm&&) noexcept = default;
Gemm::~Gemm() = default;

void Gemm::operator()(Stream& stream, const void* a, const void* b, const void* bias, const void* c, void* d,
                      bool accumulate) const {
  const Impl& impl = *impl_;
  const Range range(impl.shape.name);
  if (accumulate && !impl.shape.accumulates)
    throw Failure(Exit::internal, "a product was asked to add to its result, but its shape does not accumulate");
  if (impl.shape.bias) set(impl.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  const float alpha = 1.0f;
  const float beta = accumulate || impl.shape.residual ? 1.0f : 0.0f;
  check(cublasLtMatmul(impl.library->handle, impl.operation.get(), &alpha, b, impl.b.get(), a, impl.a.get(), &beta,
                       impl.shape.residual ? c : d, impl.d.get(), d, impl.d.get(), &impl.algorithm,
                       impl.library->workspace, impl.library->workspace_bytes, stream.handle),
        "cublasLtMatmul");
}

}  // namespace llmc
