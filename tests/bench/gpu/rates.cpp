// Rates of single GEMMs, and of one overlapped with a copy, by cuBLASLt itself: rates SECONDS PRODUCT... prints a line
// of JSON for each.
//
// PRODUCT: m,n,k,operands,result,scale,accumulation,beta,sms. Operands bf16, e4m3 or e5m2 (A e4m3, B e5m2), stored
// along k (TN, required by fp8); result bf16 or fp32; scale none, tensor, row or block (B by 1 x 128, A by 128 x 128);
// accumulation fast or exact; beta 1 adds to the result; sms: SMs that the GEMM is planned for, 0 for all; a + at its
// end overlaps it with a copy on all others.
#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "copy_until.h"

namespace {

constexpr std::size_t kWorkspace = std::size_t{64} << 20;
constexpr std::size_t kCopied = std::size_t{1} << 30;  // far more than the caches hold

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw std::runtime_error(std::string(call) + " says " + cudaGetErrorString(status));
}
void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw std::runtime_error(std::string(call) + " says " + cublasLtGetStatusName(status));
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Product {
  std::string text;
  long long m = 0, n = 0, k = 0;
  std::string operands, result, scale, accumulation;
  float beta = 0;
  int sms = 0;
  bool beside = false;

  bool fp8() const { return operands != "bf16"; }
  std::size_t operand_bytes() const { return fp8() ? 1 : 2; }
  std::size_t result_bytes() const { return result == "fp32" ? 4 : 2; }
};

Product parse(const char* text) {
  char operands[16], result[16], scale[16], accumulation[16], sms[16];
  Product p;
  p.text = text;
  if (std::sscanf(text, "%lld,%lld,%lld,%15[^,],%15[^,],%15[^,],%15[^,],%f,%15s", &p.m, &p.n, &p.k, operands, result,
                  scale, accumulation, &p.beta, sms) != 9)
    throw std::runtime_error(std::string("no product: ") + text);
  p.operands = operands, p.result = result, p.scale = scale, p.accumulation = accumulation;
  p.sms = std::atoi(sms);
  p.beside = std::strchr(sms, '+') != nullptr;
  return p;
}

/// Memory freed with its owner.
class Memory {
 public:
  explicit Memory(std::size_t bytes) { check(cudaMalloc(&data_, bytes), "cudaMalloc"); }
  ~Memory() { cudaFree(data_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  char* get() const { return static_cast<char*>(data_); }

 private:
  void* data_ = nullptr;
};

/// Normally distributed numbers, repeating a block of 2^20: on zeros a GPU draws less power and runs faster.
template <class Element>
void fill(const Memory& to, std::size_t elements) {
  std::mt19937 generator(1);
  std::normal_distribution<float> draw;
  std::vector<Element> block(std::min(elements, std::size_t{1} << 20));
  for (Element& value : block) value = Element(draw(generator));
  for (std::size_t at = 0; at < elements; at += block.size())
    check(cudaMemcpy(to.get() + at * sizeof(Element), block.data(),
                     std::min(block.size(), elements - at) * sizeof(Element), cudaMemcpyHostToDevice),
          "cudaMemcpy");
}

void fill(const Memory& to, std::size_t elements, const std::string& type) {
  if (type == "bf16") fill<__nv_bfloat16>(to, elements);
  if (type == "e4m3") fill<__nv_fp8_e4m3>(to, elements);
  if (type == "e5m2") fill<__nv_fp8_e5m2>(to, elements);
}

/// The copy that overlaps with a GEMM, by one block per SM, on its own stream.
class Copy {
 public:
  explicit Copy(int blocks) : blocks_(blocks), from_(kCopied), to_(kCopied), bytes_(sizeof(unsigned long long)) {
    check(cudaHostAlloc(&stop_, sizeof(int), cudaHostAllocMapped), "cudaHostAlloc");
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    fill<__nv_bfloat16>(from_, kCopied / 2);
  }
  ~Copy() {
    say(1);
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
    cudaFreeHost(stop_);
  }

  void begin() {
    say(0);
    check(cudaMemsetAsync(bytes_.get(), 0, sizeof(unsigned long long), stream_), "cudaMemsetAsync");
    began_ = now();
    check(copy_until(blocks_, from_.get(), to_.get(), kCopied, stop_, bytes_.get(), stream_), "copy_until");
  }
  /// GB/s read and written since begin().
  double end() {
    say(1);
    check(cudaStreamSynchronize(stream_), "the copy");
    const double seconds = now() - began_;
    unsigned long long bytes = 0;
    check(cudaMemcpy(&bytes, bytes_.get(), sizeof bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return 1e-9 * static_cast<double>(bytes) / seconds;
  }

 private:
  void say(int stop) { *static_cast<volatile int*>(stop_) = stop; }

  int blocks_;
  Memory from_, to_, bytes_;
  int* stop_ = nullptr;  // in host memory, polled by the device
  cudaStream_t stream_ = nullptr;
  double began_ = 0;
};

cudaDataType_t type_of(const std::string& name) {
  if (name == "bf16") return CUDA_R_16BF;
  if (name == "fp32") return CUDA_R_32F;
  return name == "e4m3" ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

/// A GEMM with its resources, using the algorithm that is fastest in a burst.
class Run {
 public:
  Run(cublasLtHandle_t handle, cudaStream_t stream, const Product& p)
      : handle_(handle),
        stream_(stream),
        p_(p),
        workspace_(kWorkspace),
        a_(static_cast<std::size_t>(p.m * p.k) * p.operand_bytes()),
        b_(static_cast<std::size_t>(p.n * p.k) * p.operand_bytes()),
        d_(static_cast<std::size_t>(p.m * p.n) * p.result_bytes()),
        scales_(scales() * sizeof(float)) {
    const std::string a_type = p.operands == "e5m2" ? "e4m3" : p.operands;
    fill(a_, static_cast<std::size_t>(p.m * p.k), a_type);
    fill(b_, static_cast<std::size_t>(p.n * p.k), p.operands);
    const std::vector<float> ones(scales(), 1.0F);
    check(cudaMemcpy(scales_.get(), ones.data(), ones.size() * sizeof(float), cudaMemcpyHostToDevice), "cudaMemcpy");
    check(cudaMemset(d_.get(), 0, static_cast<std::size_t>(p.m * p.n) * p.result_bytes()), "cudaMemset");
    check(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T);
    set(CUBLASLT_MATMUL_DESC_TRANSB, CUBLAS_OP_N);
    if (p.sms > 0) set(CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, static_cast<std::int32_t>(p.sms));
    if (p.fp8()) describe_fp8();
    layout(&a_layout_, type_of(a_type), p.k, p.m);
    layout(&b_layout_, type_of(p.operands), p.k, p.n);
    layout(&d_layout_, type_of(p.result), p.m, p.n);
    choose();
  }
  ~Run() {
    for (const auto each : {a_layout_, b_layout_, d_layout_})
      if (each) cublasLtMatrixLayoutDestroy(each);
    if (operation_) cublasLtMatmulDescDestroy(operation_);
  }
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  int algorithms() const { return found_; }
  double burst_ms() const { return burst_ms_; }

  void operator()(const cublasLtMatmulAlgo_t& algorithm) const {
    const float one = 1;
    check(cublasLtMatmul(handle_, operation_, &one, a_.get(), a_layout_, b_.get(), b_layout_, &p_.beta, d_.get(),
                         d_layout_, d_.get(), d_layout_, &algorithm, workspace_.get(), kWorkspace, stream_),
          "cublasLtMatmul");
  }

  /// Mean ms over `seconds`.
  double sustained_ms(double seconds) const {
    const int batch = std::clamp(static_cast<int>(50 / burst_ms_), 1, 1000);
    const double start = now();
    double ms = 0;
    int count = 0;
    do {
      ms += ms_of(best_, batch);
      count += batch;
    } while (now() - start < seconds);
    return ms / count;
  }

 private:
  std::size_t scales() const { return static_cast<std::size_t>(std::max(p_.m, p_.n) * ((p_.k + 127) / 128)); }

  template <class Value>
  void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
    check(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof value),
          "cublasLtMatmulDescSetAttribute");
  }

  void describe_fp8() {
    set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, static_cast<std::int8_t>(p_.accumulation == "fast"));
    if (p_.scale == "none") return;
    set(CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, static_cast<const void*>(scales_.get()));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, static_cast<const void*>(scales_.get()));
    if (p_.scale == "tensor") return;
    const bool row = p_.scale == "row";
    set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE,
        static_cast<std::int32_t>(row ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F
                                      : CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F));
    set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, static_cast<std::int32_t>(row ? CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F
                                                                         : CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F));
  }

  static void layout(cublasLtMatrixLayout_t* to, cudaDataType_t type, long long rows, long long columns) {
    check(cublasLtMatrixLayoutCreate(to, type, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(columns),
                                     rows),
          "cublasLtMatrixLayoutCreate");
  }

  double ms_of(const cublasLtMatmulAlgo_t& algorithm, int runs) const {
    cudaEvent_t begin = nullptr, end = nullptr;
    check(cudaEventCreate(&begin), "cudaEventCreate");
    check(cudaEventCreate(&end), "cudaEventCreate");
    check(cudaEventRecord(begin, stream_), "cudaEventRecord");
    for (int i = 0; i < runs; ++i) (*this)(algorithm);
    check(cudaEventRecord(end, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end), "the product");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "cudaEventElapsedTime");
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return static_cast<double>(ms);
  }

  void choose() {
    cublasLtMatmulPreference_t preference = nullptr;
    check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspace,
                                               sizeof kWorkspace),
          "cublasLtMatmulPreferenceSetAttribute");
    std::vector<cublasLtMatmulHeuristicResult_t> results(8);
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(handle_, operation_, a_layout_, b_layout_, d_layout_, d_layout_, preference,
                                       static_cast<int>(results.size()), results.data(), &found_);
    cublasLtMatmulPreferenceDestroy(preference);
    check(found_ == 0 && status == CUBLAS_STATUS_SUCCESS ? CUBLAS_STATUS_NOT_SUPPORTED : status,
          "cublasLtMatmulAlgoGetHeuristic");
    for (int i = 0; i < found_; ++i) {
      const cublasLtMatmulAlgo_t& algorithm = results[static_cast<std::size_t>(i)].algo;
      ms_of(algorithm, 1);
      const double ms = ms_of(algorithm, 5) / 5;
      if (i == 0 || ms < burst_ms_) best_ = algorithm, burst_ms_ = ms;
    }
  }

  cublasLtHandle_t handle_;
  cudaStream_t stream_;
  Product p_;
  Memory workspace_, a_, b_, d_, scales_;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_layout_ = nullptr, b_layout_ = nullptr, d_layout_ = nullptr;
  cublasLtMatmulAlgo_t best_{};
  double burst_ms_ = 0;
  int found_ = 0;
};

void measure(cublasLtHandle_t handle, cudaStream_t stream, const Product& p, double seconds, int sms) {
  try {
    if (p.sms > sms || (p.beside && p.sms >= sms))
      throw std::runtime_error("this GPU has " + std::to_string(sms) + " SMs");
    const Run run(handle, stream, p);
    const double work = 2e-9 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
    if (!p.beside) {
      const double begin = now(), ms = run.sustained_ms(seconds);
      std::printf(
          "{\"product\": \"%s\", \"algorithms\": %d, \"burst\": %.3f, \"sustained\": %.3f, \"begin\": %.6f, \"end\": "
          "%.6f}\n",
          p.text.c_str(), run.algorithms(), work / run.burst_ms(), work / ms, begin, now());
    } else {
      Copy copy(sms - p.sms);
      copy.begin();
      const double begin = now();
      while (now() - begin < seconds) {
      }
      const double alone = copy.end();
      copy.begin();
      const double both = now(), ms = run.sustained_ms(seconds);
      const double end = now(), beside = copy.end();
      std::printf(
          "{\"product\": \"%s\", \"algorithms\": %d, \"sustained\": %.3f, \"copy_alone_gb_s\": %.1f, \"copy_gb_s\": "
          "%.1f, "
          "\"begin\": %.6f, \"end\": %.6f}\n",
          p.text.c_str(), run.algorithms(), work / ms, alone, beside, both, end);
    }
  } catch (const std::runtime_error& error) {
    if (cudaDeviceSynchronize() != cudaSuccess) throw;  // no GPU work is possible after that
    std::printf("{\"product\": \"%s\", \"absent\": \"%s\"}\n", p.text.c_str(), error.what());
  }
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "rates SECONDS PRODUCT...\n");
    return 2;
  }
  try {
    cublasLtHandle_t handle = nullptr;
    cudaStream_t stream = nullptr;
    int sms = 0;
    check(cublasLtCreate(&handle), "cublasLtCreate");
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, 0), "cudaDeviceGetAttribute");
    for (int i = 2; i < argc; ++i) measure(handle, stream, parse(argv[i]), std::strtod(argv[1], nullptr), sms);
    return 0;
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
