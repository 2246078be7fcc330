// Compares variants for `trainer tune`: on numbers like those of training, in alternating rounds.
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

/// Numbers like those of a training step: with zeros a GPU draws less power and runs faster.
class Normals {
 public:
  explicit Normals(Device& device);
  void fill(std::byte* memory, std::size_t bytes, DType dtype);

 private:
  Device& device_;
  std::vector<float> fp32_;
  std::vector<bf16> bf16_;
  std::vector<fp16> fp16_;
  // As of rows that are scaled to the type's range.
  std::vector<e4m3> e4m3_;
  std::vector<e5m2> e5m2_;
};

/// Measurements of the candidates.
struct Times {
  std::vector<float> ms;                        // per launch; infinite: excluded
  std::vector<std::optional<CardState>> cards;  // during the last turn; nothing for candidates that ran in bursts only
};

/// Times `count` candidates in bursts. If `sustained_ms` is not 0, then times the first and the fastest three,
/// alternating, for that long each. The device is never idle in between. If `launch(i)` returns false, the time of
/// candidate i is infinite.
Times times_of(cudaStream_t stream, std::size_t count, double sustained_ms, const Card& card,
               const std::function<bool(std::size_t)>& launch);

/// Index of the fastest, or the first if that gains 2 % or less.
std::size_t worth_taking(const std::vector<float>& medians);

}  // namespace llmc
