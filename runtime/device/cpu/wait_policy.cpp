#include "device/cpu/wait_policy.h"

#include <unistd.h>

#include <cstdlib>

namespace llmc {

void limit_spinning(char** argv) {
  for (const char* of_user : {"OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY"})
    if (std::getenv(of_user)) return;
  setenv("GOMP_SPINCOUNT", "1000", 0);  // loop iterations: measured, free on an idle machine
  execv("/proc/self/exe", argv);
  // Reached only if the kernel refuses exec. Training works with long spins as well.
}

}  // namespace llmc
