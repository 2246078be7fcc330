// Access to the training state for checkpoints, wherever it is stored: host memory, a device, a snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "program/buffers.h"
#include "program/dtype.h"
#include "program/optimizers.h"
#include "program/parameters.h"

namespace llmc {

/// Index of the weights among the buffers of a training state; the optimizer state follows.
inline constexpr std::size_t kWeights = 0;

/// A buffer of a training state: the weights, or a tensor that the optimizer keeps of the parameters of some groups.
/// Element i stands for elements [i * block, (i + 1) * block) of a flat buffer of all parameters; `of_rows`: for one
/// row of a matrix.
struct SavedBuffer {
  std::string prefix;  // before a parameter's name in a checkpoint: nothing for the weights, "exp_avg." and so on
  DType dtype = DType::f32;
  std::int64_t block = 1;
  GroupSet groups = kAllGroups;
  bool of_rows = false;

  bool covers(const ParameterInfo& parameter) const { return holds(groups, parameter.group); }
};

/// The weights, and what the optimizers keep that groups name, `kind` where they name none.
std::vector<SavedBuffer> saved_buffers(std::span<const ParameterGroup> groups, OptimizerKind kind);

/// A parameter's elements of a buffer, as a parameter of that buffer: itself, or a vector with an element for each
/// block or row, whose offset counts the buffer's own elements. Throws Failure(internal) where a block would belong to
/// another parameter as well, or to padding.
ParameterInfo parameter_in(const SavedBuffer& buffer, const ParameterInfo& parameter);

/// Those of a list of Buffer, or of the plan's own, in the order of a checkpoint.
template <class Buffers>
std::vector<SavedBuffer> saved_buffers(const Buffers& buffers) {
  std::vector<SavedBuffer> saved;
  for (const auto& b : buffers)
    if (b.use == Use::masters)
      saved.insert(saved.begin(), SavedBuffer{"", b.dtype});
    else if (is_state(b.use))
      saved.push_back(
          {(b.saved_as ? b.saved_as : std::string(b.name)) + ".", b.dtype, b.block, b.groups, b.use == Use::row_state});
  return saved;
}

/// Elements of buffers, as parameter_in() places those of a parameter. Where several ranks share out a buffer, one may
/// write any elements, of which it keeps its own, and reads what was gathered last.
class StateAccess {
 public:
  virtual ~StateAccess() = default;
  virtual std::span<const SavedBuffer> buffers() const = 0;
  /// Makes a parameter's elements of a buffer whole on this rank, until the next call. Every rank calls it, in the same
  /// order; cheap in the order of a checkpoint's names, where what is gathered at once serves several.
  virtual void gather(std::size_t buffer, const ParameterInfo& parameter) = 0;
  /// Copies elements [offset, offset + count) to host memory; complete on return.
  virtual void read(std::size_t buffer, std::int64_t offset, std::int64_t count, std::byte* out) = 0;
  /// Copies host memory to elements [offset, offset + count); `values` may be reused on return.
  virtual void write(std::size_t buffer, std::int64_t offset, std::int64_t count, const std::byte* values) = 0;
};

}  // namespace llmc
