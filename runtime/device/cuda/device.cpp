#include "device/device.h"

#include <cuda_profiler_api.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/cuda/check.h"
#include "device/cuda/staging.h"
#include "device/cuda/stream.h"
#include "error.h"

namespace llmc {
namespace {

constexpr std::size_t kGranule = std::size_t{2} << 20;  // mapping granularity of the driver; whole granules are aligned
                                                        // to it

std::string gibibytes(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

int visible_devices() {
  int count = 0;
  check(cudaGetDeviceCount(&count), "cudaGetDeviceCount");
  return count;
}

}  // namespace

struct Device::Impl {
  Stream stream;
  std::optional<Staging> staging;  // declared after the stream, because its destructor waits for the stream
  std::vector<void*> allocations;
  std::vector<std::span<const std::byte>> pinned;
  std::string description, identity;
  bool profiled = false;

  ~Impl() {
    staging.reset();
    for (void* memory : allocations) cudaFree(memory);
    for (const auto& memory : pinned) cudaFreeHost(const_cast<std::byte*>(memory.data()));
    if (stream.handle) cudaStreamDestroy(stream.handle);
  }
};

Device::Device(int index, int) : impl_(new Impl()) {
  const int count = visible_devices();
  if (index < 0 || index >= count)
    throw Failure(Exit::toolchain, "there is no GPU " + std::to_string(index) + ": this machine shows " +
                                       std::to_string(count) + " (nvidia-smi -L; CUDA_VISIBLE_DEVICES hides some)");
  check(cudaSetDevice(index), "cudaSetDevice");
  check(cudaStreamCreateWithFlags(&impl_->stream.handle, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  impl_->staging.emplace(impl_->stream.handle);

  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, index), "cudaGetDeviceProperties");
  static constexpr char kDigits[] = "0123456789abcdef";
  for (const char byte : properties.uuid.bytes)
    impl_->identity += {kDigits[static_cast<unsigned char>(byte) >> 4], kDigits[byte & 15]};
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  impl_->description = std::string(properties.name) + " (sm_" + std::to_string(properties.major) +
                       std::to_string(properties.minor) + "), " + gibibytes(properties.totalGlobalMem) +
                       ", driver for CUDA " + std::to_string(driver / 1000) + "." + std::to_string(driver % 1000 / 10);
}

Device::~Device() = default;

int Device::index_of(int local_rank) { return local_rank % std::max(1, visible_devices()); }

Stream& Device::stream() { return impl_->stream; }

void Device::check_instructions(const char*, std::uint64_t) {}

std::byte* Device::allocate(std::size_t bytes) {
  const std::size_t size = (bytes / kGranule + (bytes % kGranule || !bytes)) * kGranule;
  std::size_t available = 0, total = 0;
  check(cudaMemGetInfo(&available, &total), "cudaMemGetInfo");
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, size);
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    throw Failure(Exit::does_not_fit, "the run needs " + gibibytes(size) + " of GPU memory, but only " +
                                          gibibytes(available) + " of " + gibibytes(total) +
                                          " are free. Make batch.micro_batch or memory.budget smaller, or end the "
                                          "other programs on the GPU (nvidia-smi)");
  }
  check(error, "cudaMalloc");
  impl_->allocations.push_back(memory);
  zero(memory, size);
  return static_cast<std::byte*>(memory);
}

std::byte* Device::allocate_host(std::size_t bytes) {
  auto* const begin = static_cast<std::byte*>(pin(bytes));
  impl_->pinned.emplace_back(begin, bytes);
  return begin;
}

void Device::copy_in(void* dst, const void* src, std::size_t bytes) { impl_->staging->copy_in(dst, src, bytes); }

void Device::copy_out(void* dst, const void* src, std::size_t bytes) {
  const auto* const to = static_cast<const std::byte*>(dst);
  for (const std::span<const std::byte> memory : impl_->pinned)
    if (to >= memory.data() && to < memory.data() + memory.size()) {
      check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToHost, impl_->stream.handle), "cudaMemcpyAsync");
      return;
    }
  impl_->staging->copy_out(dst, src, bytes);
}

void Device::zero(void* dst, std::size_t bytes) {
  const Launched launched(impl_->stream.listener, impl_->stream, LaunchKind::memset);
  if (bytes) check(cudaMemsetAsync(dst, 0, bytes, impl_->stream.handle), "cudaMemsetAsync");
}

void Device::copy(void* dst, const void* src, std::size_t bytes) {
  check(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, impl_->stream.handle), "cudaMemcpyAsync");
}

void Device::synchronize() {
  impl_->staging->finish();
  check(cudaStreamSynchronize(impl_->stream.handle), "cudaStreamSynchronize");
}

bool Device::runs_ahead() const { return true; }

void Device::profile(bool on) {
  synchronize();
  check(on ? cudaProfilerStart() : cudaProfilerStop(), on ? "cudaProfilerStart" : "cudaProfilerStop");
  impl_->profiled = on;
}

void Device::listen(LaunchListener* listener) { impl_->stream.listener = listener; }

bool Device::profiled() const { return impl_->profiled; }

const char* Device::description() const { return impl_->description.c_str(); }

int Device::threads() const { return 1; }

const char* Device::processors() const { return ""; }

const char* Device::identity() const { return impl_->identity.c_str(); }

}  // namespace llmc
