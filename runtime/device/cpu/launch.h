// Runs a kernel on the cores: every OpenMP thread calls it, and Group assigns each thread its rows.
#pragma once

#include "device/cpu/stream.h"

namespace llmc {

/// Returns when all threads are done. Arguments are converted to the kernel's parameters as in a call. Static: a step
/// is compiled for one arch, and its copy must not become the one of code for all.
template <class... Parameters, class... Arguments>
static void launch(Stream& stream, void (*kernel)(Parameters...), Arguments... arguments) {
  const Launched launched(stream.listener, stream, LaunchKind::kernel);
#pragma omp parallel
  {
    kernel(arguments...);
    __builtin_ia32_sfence();  // makes streaming stores (Group's results) visible to every thread
  }
}

}  // namespace llmc
