#include "device/cpu/address_space.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <string>

#include "error.h"

namespace llmc {

void require_address_space(std::size_t bytes, const char* purpose) {
  rlimit limit{};
  // Without a limit any reservation succeeds, and memory is checked elsewhere.
  if (bytes == 0 || getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  void* tried = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (tried == MAP_FAILED)
    throw Failure(Exit::does_not_fit, "the limit of address space, " + std::to_string(limit.rlim_cur >> 10) +
                                          " KiB (ulimit -v), has no " + std::to_string(bytes >> 20) + " MiB left for " +
                                          purpose + ". Raise it, or make batch.micro_batch or the model smaller");
  munmap(tried, bytes);
}

std::size_t stack_bytes(int threads) {
  pthread_attr_t attributes;
  std::size_t size = 0;
  if (pthread_getattr_default_np(&attributes) != 0) return 0;
  pthread_attr_getstacksize(&attributes, &size);
  pthread_attr_destroy(&attributes);
  return size * static_cast<std::size_t>(threads);
}

}  // namespace llmc
