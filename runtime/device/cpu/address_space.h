// Checks that address space is left for a library that would otherwise end the process.
#pragma once

#include <cstddef>

namespace llmc {

/// Throws Failure(does_not_fit) naming `purpose` and the limit if the system does not grant `bytes` of address space
/// (ulimit -v). Reserves nothing.
void require_address_space(std::size_t bytes, const char* purpose);

/// Address space for the stacks of `threads` threads, in bytes.
std::size_t stack_bytes(int threads);

}  // namespace llmc
