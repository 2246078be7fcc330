#include "math/gemm.h"

#include <cublasLt.h>

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "device/range.h"
#include "error.h"
#include "math/cublaslt/product.h"
#include "math/cublaslt/tuned_file.h"
#include "math/gemm_text.h"
#include "math/tuning.h"

namespace llmc {

std::string cublaslt_version() {
  const std::size_t version = cublasLtGetVersion();  // 130100: 13.1.0
  return "cuBLASLt " + std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

MathLibrary::MathLibrary(Device&, void* workspace, std::size_t workspace_bytes, int reserved_sms)
    : impl_(new Impl(workspace, workspace_bytes, reserved_sms)) {
  // Shapes say how operands are aligned as the plan counts from the arena's start, which the workspace stands for here.
  if (reinterpret_cast<std::uintptr_t>(workspace) % kArenaAlignment != 0)
    throw Failure(Exit::internal, "the memory of matrix products does not begin at a multiple of " +
                                      std::to_string(kArenaAlignment) + " bytes");
  impl_->tuned = TunedFile::read(tuned_file());
}

MathLibrary::~MathLibrary() = default;

namespace {

/// Removes the variables with which cuBLASLt would round the operands of fp32 products, those of audits too, whatever
/// the spec says. Call before the first handle of the process: only then does the library read them.
/// NVIDIA_TF32_OVERRIDE=0 stays: it rounds nothing.
void unset_rounding_variables() {
  const char* const tf32 = std::getenv("NVIDIA_TF32_OVERRIDE");
  if (tf32 && std::string_view(tf32) != "0") unsetenv("NVIDIA_TF32_OVERRIDE");
  unsetenv("CUBLAS_EMULATE_SINGLE_PRECISION");
}

}  // namespace

MathLibrary::Impl::Impl(void* memory, std::size_t bytes, int reserved_sms) : workspace(memory), workspace_bytes(bytes) {
  unset_rounding_variables();
  check(cublasLtCreate(&handle), "cublasLtCreate");
  int index = 0;
  cudaDeviceProp properties;
  llmc::check(cudaGetDevice(&index), "cudaGetDevice");
  llmc::check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  capability = 10 * properties.major + properties.minor;
  const int sms = properties.multiProcessorCount;
  device = std::string(properties.name) + " with " + std::to_string(sms) + " SMs";
  if (reserved_sms == 0) return;
  if (reserved_sms >= sms)
    throw Failure(Exit::usage, "parallel.reserved_sms is " + std::to_string(reserved_sms) + ", but the device is " +
                                   device +
                                   ", so none is left for matrix products. Make parallel.reserved_sms smaller");
  sm_target = sms - reserved_sms;
}

struct Gemm::Impl {
  LtProduct product;
  cublasLtMatmulAlgo_t algorithm;  // for every beta: the heuristics get the layouts of C and D, but not beta
};

namespace {

/// Algorithm found by `trainer tune`, or the heuristics' first choice.
cublasLtMatmulAlgo_t choose(const MathLibrary::Impl& library, const LtProduct& product) {
  const auto tuned = library.tuned.find(library, product);
  return tuned ? *tuned : product.candidates(1, kUntunedWorkspace).front().algorithm;
}

}  // namespace

Gemm::Gemm(MathLibrary& library, const GemmShape& shape)
    : impl_(new Impl(LtProduct(library.impl(), shape), cublasLtMatmulAlgo_t{})) {
  impl_->algorithm = choose(library.impl(), impl_->product);
}

Gemm::Gemm(Gemm&&) noexcept = default;
Gemm::~Gemm() = default;

void Gemm::operator()(Stream& stream, const GemmOperands& o) const {
  const GemmShape& shape = impl_->product.shape();
  const Range range(stream, shape.name);
  const Launched launched(stream.listener, stream, LaunchKind::product, shape.name);
  if (o.accumulate && !shape.accumulates)
    throw Failure(Exit::internal, "a product must add to its result, but its shape does not accumulate");
  if (shape.scaling != Scaling::none && (!o.scale_a || !o.scale_b))
    throw Failure(Exit::internal,
                  std::string("the product '") + shape.name + "' has no scales of its " + name_of(shape.scaling));
  check(impl_->product.launch(impl_->algorithm, stream.handle, o), "cublasLtMatmul");
}

}  // namespace llmc
