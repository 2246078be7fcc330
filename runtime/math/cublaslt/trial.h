// How `trainer tune` compares ways of computing one thing: on numbers as training has them, in rounds that take turns.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

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

/// The fastest of these, or the first where that gains 2 % or less.
std::size_t worth_taking(const std::vector<float>& medians);

}  // namespace llmc
