// Variables that kernels declare in shared memory, from the program's symbol table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sim {

/// State of a granule of a block's shared memory: free to be accessed, the destination of a copy in flight, or outside
/// of what the kernel declares.
enum class Granule : std::uint8_t { open, arriving, undeclared };

struct SharedLayout {
  std::vector<Granule> granules;  // of the program's shared memory, for this kernel
  std::size_t bytes = 0;          // of the kernel's own variables
};

/// Layout for the kernel of this mangled name. Variables of inline functions are open to every kernel, because the
/// table does not tell which kernels call them.
SharedLayout layout_of(const char* mangled);

}  // namespace sim
