#include "device/cpu/wait_policy.h"

#include <unistd.h>

#include <cstdlib>

namespace llmc {

void limit_spinning(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") || std::getenv("GOMP_SPINCOUNT")) return;
  setenv("GOMP_SPINCOUNT", "1000", 0);  // microseconds: measured, free on an idle machine
  execv("/proc/self/exe", argv);
  // Only when the kernel will not start it again: training works as well with long spins.
}

}  // namespace llmc
