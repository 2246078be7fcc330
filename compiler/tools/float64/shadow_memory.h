// Remembers what a trainer's ops left in each tensor, to find a tensor that another op overwrites while it is live.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "compiler/plan/plan.h"
#include "compiler/tools/float64/compare.h"
#include "compiler/tools/float64/op_order.h"
#include "compiler/tools/float64/operands.h"

namespace llmc::float64 {

class ShadowMemory {
 public:
  explicit ShadowMemory(const plan::Plan& plan) : plan_(plan) {}

  /// Notes the contents of an operand. `bytes`: Extent::bytes() from its first element on.
  void note(const ScheduledOp& launch, graph::TensorId id, const Extent& extent, std::span<const std::byte> bytes);

  /// Whether the operand's first element was noted.
  bool knows(const ScheduledOp& launch, graph::TensorId id, const Extent& extent) const;

  /// Returns the first element that differs from what was noted of it, if any. Worst::exact is the noted value, of
  /// records and ties that of the first byte that differs, and Worst::column then counts bytes.
  std::optional<Worst> changed(const ScheduledOp& launch, graph::TensorId id, const Extent& extent,
                               std::span<const std::byte> bytes) const;

  /// Forgets what the host has written before a pass, since it writes that anew.
  void forget_inputs();

 private:
  struct Buffer {
    std::vector<std::byte> bytes;
    std::map<std::int64_t, std::int64_t> noted;  // ranges [begin, end) of bytes, apart from each other
  };

  const plan::Plan& plan_;
  std::map<std::pair<graph::TensorId, std::int64_t>, Buffer> buffers_;  // by Place::buffer and copy
};

}  // namespace llmc::float64
