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

/// What was seen of candidates.
struct Times {
  std::vector<float> ms;                        // of a launch; infinite: out of the running
  std::vector<std::optional<CardState>> cards;  // in the midst of the last turn; none of what ran in bursts alone
};

/// Times `count` candidates in bursts, and where `sustained_ms` is not 0 the first and the fastest three again in
/// turns, for that long each. Between bursts and turns the device is never idle. `launch(i)` is false where it fails,
/// whose time is infinite.
Times times_of(cudaStream_t stream, std::size_t count, double sustained_ms, const Card& card,
               const std::function<bool(std::size_t)>& launch);

/// The fastest of these, or the first where that gains 2 % or less.
std::size_t worth_taking(const std::vector<float>& medians);

}  // namespace llmc
