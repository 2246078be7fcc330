#include "program/buffers.h"

#include <string>

#include "error.h"

namespace llmc {

const Buffer& buffer_of(std::span<const Buffer> buffers, Use use) {
  const Buffer* found = find_buffer(buffers, use);
  if (!found) throw Failure(Exit::internal, std::string("the trainer's plan has no buffer for ") + name_of(use));
  return *found;
}

}  // namespace llmc
