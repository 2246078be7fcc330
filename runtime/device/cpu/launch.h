// Runs a kernel on the host's cores: every OpenMP thread calls it and takes its share of the rows.
#pragma once

#include "device/cpu/stream.h"

namespace llmc {

template <class... Parameters, class... Arguments>
void launch(Stream&, void (*kernel)(Parameters...), Arguments... arguments) {
#pragma omp parallel
  kernel(arguments...);
}

}  // namespace llmc
