// Runs a kernel on the cores: every OpenMP thread calls it, and Group assigns each thread its rows.
#pragma once

#include "device/cpu/stream.h"

namespace llmc {

/// Returns when all threads are done. Arguments are converted to the kernel's parameters as in a call.
template <class... Parameters, class... Arguments>
void launch(Stream& stream, void (*kernel)(Parameters...), Arguments... arguments) {
  const Launched launched(stream.listener, stream, LaunchKind::kernel);
#pragma omp parallel
  {
    kernel(arguments...);
    __builtin_ia32_sfence();  // makes streaming stores (Group's results) visible to every thread
  }
}

}  // namespace llmc
