// How `trainer tune` compares ways of computing one thing: on numbers as training has them, in rounds that take turns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "device/cuda/card.h"
#include "device/device.h"
#include "device/types.h"
#include "math/gemm.h"

namespace llmc {

/// Numbers that a training step would have: with zeros a GPU draws less power and runs faster.
class Normals {
 public:
  explicit Normals(Device& device);
  void fill(std::byte* memory, std::size_t bytes, DType dtype);

 private:
  Device& device_;
  std::vector<float> fp32_;
  std::vector<bf16> bf16_;
};

/// ms of a launch of each of `count` candidates: the median of five rounds over all of them, so that a change of the
/// device's clock meets all. `launch(i)` is false where it fails, whose time is infinite.
std::vector<float> median_times(cudaStream_t stream, std::size_t count, const std::function<bool(std::size_t)>& launch);

/// The first of these, and the fastest three: what is worth a longer look. Ascending.
std::vector<std::size_t> finalists(const std::vector<float>& medians);

/// ms of a launch of each of `chosen` when the device is warm and at the clock that its power allows: they take turns,
/// behind one of the first that is not counted, until each has run for `least_ms` or longer. `burst_ms`: of all.
/// `meanwhile(i)` is called while i runs.
std::vector<float> sustained_times(cudaStream_t stream, const std::vector<std::size_t>& chosen,
                                   const std::vector<float>& burst_ms, double least_ms,
                                   const std::function<bool(std::size_t)>& launch,
                                   const std::function<void(std::size_t)>& meanwhile);

/// What was seen of candidates.
struct Times {
  std::vector<float> ms;                        // of a launch; infinite: out of the running
  std::vector<std::optional<CardState>> cards;  // in the midst of the last turn; none of what ran in bursts alone
};

/// Times `count` candidates as bursts, and the finalists again for `sustained_ms`, where that is not 0.
Times times_of(cudaStream_t stream, std::size_t count, double sustained_ms, const Card& card,
               const std::function<bool(std::size_t)>& launch);

/// The fastest of these, or the first where that gains 2 % or less.
std::size_t worth_taking(const std::vector<float>& medians);

}  // namespace llmc
