#include <vector>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "device/timeline.h"

namespace llmc {

struct Marks::Impl {
  std::vector<cudaEvent_t> events;

  ~Impl() {
    for (cudaEvent_t event : events) cudaEventDestroy(event);
  }
};

Marks::Marks() : impl_(new Impl()) {}
Marks::~Marks() = default;

std::size_t Marks::set(Stream& stream) {
  cudaEvent_t event = nullptr;
  check(cudaEventCreate(&event), "cudaEventCreate");
  impl_->events.push_back(event);
  check(cudaEventRecord(event, stream.handle), "cudaEventRecord");
  return impl_->events.size() - 1;
}

double Marks::seconds(std::size_t mark) const {
  float milliseconds = 0;
  for (const cudaEvent_t event : {impl_->events.front(), impl_->events.at(mark)})
    check(cudaEventSynchronize(event), "cudaEventSynchronize");
  check(cudaEventElapsedTime(&milliseconds, impl_->events.front(), impl_->events[mark]), "cudaEventElapsedTime");
  return 1e-3 * static_cast<double>(milliseconds);
}

}  // namespace llmc
