// A try of the address space that a library is about to take, where it would end the process for want of it.
#pragma once

#include <cstddef>

namespace llmc {

/// Throws Failure(does_not_fit) that names `purpose` and the limit, where the system does not give so many bytes of
/// address space (ulimit -v). Takes none of it.
void require_address_space(std::size_t bytes, const char* purpose);

/// What the stacks of so many threads take.
std::size_t stack_bytes(int threads);

}  // namespace llmc
