#include "checkpoint/state_access.h"

#include "error.h"

namespace llmc {

std::vector<SavedBuffer> saved_buffers(std::span<const ParameterGroup> groups, OptimizerKind kind) {
  std::vector<SavedBuffer> saved = {{}};
  for (const auto& [named, of] : optimizers_of(groups, kind))
    for (const StateTensor& state : row_of(named).state)
      saved.push_back({std::string(state.prefix()) + ".", state.dtype, state.block, of, state.of_rows});
  return saved;
}

ParameterInfo parameter_in(const SavedBuffer& buffer, const ParameterInfo& p) {
  ParameterInfo vector = p;
  vector.rows = 1;
  vector.matrix = false;
  if (buffer.of_rows) {
    vector.offset = p.first_row;
    vector.cols = vector.pitch = p.rows;
    return vector;
  }
  if (buffer.block == 1) return p;
  if (p.offset % buffer.block != 0 || (p.rows > 1 && p.pitch != p.cols))
    throw Failure(Exit::internal, std::string("'") + p.name + "' cannot be cut into blocks of " +
                                      std::to_string(buffer.block) + " for " + buffer.prefix);
  vector.offset = p.offset / buffer.block;
  vector.cols = vector.pitch = in_blocks(flat_elements(p), buffer.block);
  return vector;
}

}  // namespace llmc
