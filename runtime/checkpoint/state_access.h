// The training state that a checkpoint reads and writes, wherever it lives: host memory, a device, a snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "program/parameters.h"

namespace llmc {

/// Index of the weights among the buffers of a training state; what the optimizer keeps of them follows.
inline constexpr std::size_t kWeights = 0;

/// Flat fp32 buffers of equal length; ParameterInfo says which elements belong to which tensor. Where several ranks
/// share out a buffer, one may write any elements, of which it keeps its own, and reads what was gathered last.
class StateAccess {
 public:
  virtual ~StateAccess() = default;
  /// What stands before a parameter's name in a checkpoint, for each buffer: nothing for the weights, "exp_avg." and so
  /// on for the optimizer's.
  virtual std::span<const std::string> prefixes() const = 0;
  /// Makes a parameter's elements of a buffer whole on this rank, until the next call. Every rank calls it, in the same
  /// order; cheap in the order of a checkpoint's names, where what is gathered at once serves several.
  virtual void gather(std::size_t buffer, const ParameterInfo& parameter) = 0;
  /// Copies elements [offset, offset + count) to host memory; complete on return.
  virtual void read(std::size_t buffer, std::int64_t offset, std::int64_t count, float* out) = 0;
  /// Copies host memory to elements [offset, offset + count); `values` may be reused on return.
  virtual void write(std::size_t buffer, std::int64_t offset, std::int64_t count, const float* values) = 0;
};

}  // namespace llmc
