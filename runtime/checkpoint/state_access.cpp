#include "checkpoint/state_access.h"

#include <algorithm>

#include "error.h"

namespace llmc {

float* HostState::at(StateKind kind, std::int64_t offset, std::int64_t count) const {
  if (offset < 0 || count < 0 || offset > elements_ || count > elements_ - offset)
    throw Failure(Exit::internal, "access outside of the training state");
  return buffers_[static_cast<int>(kind)] + offset;
}

void HostState::read(StateKind kind, std::int64_t offset, std::int64_t count, float* out) {
  std::copy_n(at(kind, offset, count), count, out);
}

void HostState::write(StateKind kind, std::int64_t offset, std::int64_t count, const float* values) {
  std::copy_n(values, count, at(kind, offset, count));
}

}  // namespace llmc
