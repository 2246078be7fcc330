// Runs a kernel on the cores: every OpenMP thread calls it, and Group hands out each thread's rows.
#pragma once

#include "device/cpu/stream.h"

namespace llmc {

/// Returns when all threads are done. Arguments convert to the kernel's parameters as in a call.
template <class... Parameters, class... Arguments>
void launch(Stream& stream, void (*kernel)(Parameters...), Arguments... arguments) {
  const Launched launched(stream.listener, stream, LaunchKind::kernel);
#pragma omp parallel
  {
    kernel(arguments...);
    __builtin_ia32_sfence();  // what went past the caches (Group's results) is there for every thread
  }
}

}  // namespace llmc
