#include "checkpoint/state_access.h"

#include "error.h"

namespace llmc {

std::vector<SavedBuffer> saved_buffers(std::span<const ParameterGroup> groups, OptimizerKind kind) {
  std::vector<SavedBuffer> saved = {{}};
  for (const auto& [named, of] : optimizers_of(groups, kind))
    for (const StateTensor& state : row_of(named).state)
      saved.push_back({std::string(state.prefix()) + ".", state.dtype, state.block, of});
  return saved;
}

ParameterInfo parameter_in(const SavedBuffer& buffer, const ParameterInfo& p) {
  if (buffer.block == 1) return p;
  if (p.offset % buffer.block != 0 || (p.rows > 1 && p.pitch != p.cols))
    throw Failure(Exit::internal, std::string("'") + p.name + "' cannot be cut into blocks of " +
                                      std::to_string(buffer.block) + " for " + buffer.prefix);
  ParameterInfo blocks = p;
  blocks.offset = p.offset / buffer.block;
  blocks.rows = 1;
  blocks.cols = blocks.pitch = in_blocks(flat_elements(p), buffer.block);
  blocks.matrix = false;
  return blocks;
}

}  // namespace llmc
