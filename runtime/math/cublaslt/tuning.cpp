#include "math/tuning.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "device/cuda/stream.h"
#include "error.h"
#include "math/cublaslt/product.h"
#include "math/cublaslt/trial.h"
#include "math/cublaslt/tuned_file.h"
#include "math/gemm_text.h"

namespace llmc {
namespace {

constexpr int kCandidates = 32;  // algorithms per workspace size

/// Bytes of a matrix, with room for it to begin at no more than its alignment.
std::size_t place_of(const GemmMatrix& matrix) {
  return buffer_space(matrix.dtype, matrix.rows * matrix.pitch) + kArenaAlignment;
}

/// Bytes of a GEMM's matrices and scales; C only if it is not D.
struct Sizes {
  std::size_t a, b, bias, c, d, scale_a, scale_b;
  explicit Sizes(const GemmShape& s)
      : a(place_of(s.a())),
        b(place_of(s.b())),
        bias(s.bias ? buffer_space(s.bias_dtype(), s.n) : 0),
        c(s.residual ? place_of(s.c()) : 0),
        d(place_of(s.d())),
        scale_a(s.scales_a() ? buffer_space(DType::f32, s.scales_a()) : 0),
        scale_b(s.scales_b() ? buffer_space(DType::f32, s.scales_b()) : 0) {}
  std::size_t total() const { return a + b + bias + c + d + scale_a + scale_b; }
};

/// One product on matrices of its own, aligned as in a step and no better.
class Trial {
 public:
  Trial(Device& device, const LtProduct& product, std::byte* memory, Normals& normals)
      : product_(product), stream_(device.stream().handle) {
    const GemmShape& s = product.shape();
    const Sizes sizes(s);
    std::byte* next = memory;
    const auto place = [&](std::size_t bytes, DType dtype, std::uint32_t align) {
      std::byte* const begin = next;
      normals.fill(begin, bytes, dtype);
      next += bytes;
      return begin + align % kArenaAlignment;
    };
    operands_.a = place(sizes.a, s.a().dtype, s.align_a);
    operands_.b = place(sizes.b, s.b().dtype, s.align_b);
    operands_.bias = place(sizes.bias, s.bias_dtype(), kArenaAlignment);
    operands_.c = place(sizes.c, s.c().dtype, s.align_c);
    operands_.d = place(sizes.d, s.d().dtype, s.align_d);
    operands_.accumulate = s.accumulates;  // as in all micro-batches but the first
    operands_.scale_a = reinterpret_cast<const float*>(place(sizes.scale_a, DType::f32, kArenaAlignment));
    operands_.scale_b = reinterpret_cast<const float*>(place(sizes.scale_b, DType::f32, kArenaAlignment));
  }

  /// Returns false if the library fails after all.
  bool launch(const cublasLtMatmulAlgo_t& algorithm) const {
    return product_.launch(algorithm, stream_, operands_) == CUBLAS_STATUS_SUCCESS;
  }

 private:
  const LtProduct& product_;
  cudaStream_t stream_;
  GemmOperands operands_;
};

/// The heuristics' choices for an untuned trainer, the first one first, then those that a larger workspace adds.
std::vector<LtProduct::Algorithm> all_candidates(const LtProduct& product, std::size_t workspace_bytes) {
  std::vector<LtProduct::Algorithm> all = product.candidates(kCandidates, kUntunedWorkspace);
  if (workspace_bytes <= kUntunedWorkspace) return all;
  for (const LtProduct::Algorithm& more : product.candidates(kCandidates, workspace_bytes))
    if (std::none_of(all.begin(), all.end(), [&](const LtProduct::Algorithm& known) {
          return std::memcmp(&known.algorithm, &more.algorithm, sizeof more.algorithm) == 0;
        }))
      all.push_back(more);
  return all;
}

TunedFile::Entry fastest(cudaStream_t stream, const Trial& trial, const std::vector<LtProduct::Algorithm>& candidates,
                         double sustained_ms, const Card& card) {
  const Times times = times_of(stream, candidates.size(), sustained_ms, card,
                               [&](std::size_t i) { return trial.launch(candidates[i].algorithm); });
  const std::size_t chosen = worth_taking(times.ms);
  const LtProduct::Algorithm& best_one = candidates[chosen];
  return {best_one.algorithm, best_one.workspace_bytes, static_cast<int>(candidates.size()),
          times.ms[0],        times.ms[chosen],         times.cards[chosen]};
}

}  // namespace

std::string tune_products(Device& device, std::span<const GemmShape> products, std::size_t workspace_bytes,
                          const TuneHow& how, const std::function<void(const TunedProduct&)>& report) {
  TunedFile file = TunedFile::read(tuned_file());
  std::size_t most = 0;
  for (const GemmShape& shape : products) most = std::max(most, Sizes(shape).total());
  std::byte* const memory = device.allocate(workspace_bytes + most);
  MathLibrary::Impl library(memory + most, workspace_bytes, how.reserved_sms);
  Normals normals(device);
  const Card card(device.identity());
  std::map<std::string, TunedFile::Entry> timed;
  for (const GemmShape& shape : products) {
    const LtProduct product(library, shape);
    auto entry = timed.find(tuned_key(shape));
    if (entry == timed.end()) {
      Trial trial(device, product, memory, normals);
      entry = timed
                  .emplace(tuned_key(shape), fastest(device.stream().handle, trial,
                                                     all_candidates(product, workspace_bytes), how.sustained_ms, card))
                  .first;
      if (std::isinf(entry->second.first_ms))
        throw Failure(Exit::toolchain, cublaslt_version() + " does not run its own choice for " + text(shape));
      file.put(library, product, entry->second);
    }
    report({shape, entry->second.candidates, entry->second.first_ms, entry->second.best_ms});
  }
  return file.text();
}

std::string describe_tuning(std::span<const GemmShape> products, std::size_t workspace_bytes, int reserved_sms) {
  MathLibrary::Impl library(nullptr, workspace_bytes, reserved_sms);
  const TunedFile file = TunedFile::read(tuned_file());
  std::size_t tuned = 0;
  for (const GemmShape& shape : products) tuned += file.find(library, LtProduct(library, shape)).has_value();
  if (tuned == 0) return "algorithms as " + cublaslt_version() + " suggests; trainer tune may find faster ones";
  return std::to_string(tuned) + " of " + std::to_string(products.size()) + " algorithms as in " +
         tuned_file().string();
}

}  // namespace llmc
