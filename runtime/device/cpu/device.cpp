#include "device/device.h"

#include <cpuid.h>
#include <omp.h>
#include <sched.h>
#include <sys/mman.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <oneapi/dnnl/dnnl.hpp>
#include <set>
#include <vector>

#include "device/cpu/address_space.h"
#include "device/cpu/required_threads.h"
#include "device/cpu/stream.h"
#include "error.h"
#include "host/limits.h"

namespace llmc {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

std::string gibibytes(std::size_t bytes) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f GiB", static_cast<double>(bytes) / (1 << 30));
  return text;
}

/// Processor's own name, without the padding of some vendors.
std::string cpu_model() {
  char name[49] = {};
  for (unsigned part = 0; part < 3; ++part) {
    unsigned words[4];
    if (!__get_cpuid(0x80000002u + part, &words[0], &words[1], &words[2], &words[3])) return "x86-64 CPU";
    std::memcpy(name + 16 * part, words, 16);
  }
  std::string text(name);
  const auto begin = text.find_first_not_of(' ');
  if (begin == std::string::npos) return "x86-64 CPU";
  return text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

/// See Device::processors().
std::string processor_numbers() {
  std::set<int> numbers;
  if (omp_get_proc_bind() != omp_proc_bind_false) {  // this thread's affinity may be a part of the threads'
    for (int place = 0; place < omp_get_num_places(); ++place) {
      std::vector<int> of_place(static_cast<std::size_t>(omp_get_place_num_procs(place)));
      omp_get_place_proc_ids(place, of_place.data());
      numbers.insert(of_place.begin(), of_place.end());
    }
  } else if (cpu_set_t set; sched_getaffinity(0, sizeof set, &set) == 0) {
    for (int number = 0; number < CPU_SETSIZE; ++number)
      if (CPU_ISSET(number, &set)) numbers.insert(number);
  }
  std::string text;
  for (const int number : numbers) text += (text.empty() ? "" : " ") + std::to_string(number);
  return text;
}

/// Instruction set that oneDNN generates code for, by oneDNN's names; respects ONEDNN_MAX_CPU_ISA.
const char* isa_name() {
  switch (dnnl::get_effective_cpu_isa()) {
#if DNNL_VERSION_MAJOR > 2
    case dnnl::cpu_isa::avx512_core_amx_fp16: return "avx512_core_amx_fp16";
    case dnnl::cpu_isa::avx512_core_fp16: return "avx512_core_fp16";
    case dnnl::cpu_isa::avx2_vnni_2: return "avx2_vnni_2";
#endif
    case dnnl::cpu_isa::avx512_core_amx: return "avx512_core_amx";
    case dnnl::cpu_isa::avx512_core_bf16: return "avx512_core_bf16";
    case dnnl::cpu_isa::avx512_core_vnni: return "avx512_core_vnni";
    case dnnl::cpu_isa::avx512_core: return "avx512_core";
    case dnnl::cpu_isa::avx2_vnni: return "avx2_vnni";
    case dnnl::cpu_isa::avx2: return "avx2";
    case dnnl::cpu_isa::avx: return "avx";
    case dnnl::cpu_isa::sse41: return "sse41";
    default: return "another instruction set";
  }
}

/// Threads that OpenMP grants to a parallel region that requests `wanted`.
int team_of(int wanted) {
  int given = 1;
#pragma omp parallel num_threads(wanted)
#pragma omp single
  given = omp_get_num_threads();
  return given;
}

/// Calls work(first, count) on each thread for its part of `bytes` bytes.
template <class Work>
void across_threads(std::size_t bytes, Work work) {
#pragma omp parallel
  {
    const std::size_t threads = static_cast<std::size_t>(omp_get_num_threads());
    const std::size_t share = round_up((bytes + threads - 1) / threads, 64);
    const std::size_t first = share * static_cast<std::size_t>(omp_get_thread_num());
    if (first < bytes) work(first, std::min(share, bytes - first));
  }
}

}  // namespace

struct Device::Impl {
  struct Mapping {
    void* address;
    std::size_t bytes;
  };
  Stream stream;
  int threads = 1;
  std::string description, processors;
  std::vector<Mapping> mappings;

  ~Impl() {
    for (const Mapping& mapping : mappings) munmap(mapping.address, mapping.bytes);
  }
};

int Device::index_of(int) { return 0; }

Device::Device(int, int asked) : impl_(new Impl()) {
  // By default one thread per processor that this process may run on or has time for. The affinity of this thread does
  // not count, because OpenMP may have bound it to one processor.
  const int processors = HostLimits().processors(omp_get_num_procs());
  impl_->processors = processor_numbers();
  const char* const of_user = std::getenv("OMP_NUM_THREADS");
  const int wanted = asked > 0 ? asked : of_user && *of_user ? omp_get_max_threads() : processors;
  if (wanted > kMostThreads)
    throw Failure(Exit::usage, "OMP_NUM_THREADS is " + std::to_string(wanted) +
                                   ", more than llmc starts. Write at most " + std::to_string(kMostThreads));
  // libgomp would end the process.
  require_address_space(stack_bytes(wanted - 1), "the stacks of its threads");
  require_threads(std::min(wanted, omp_get_thread_limit()) - 1);
  // A team that shrank during a run would change the partition, and with it the bits of GEMMs.
  omp_set_dynamic(0);
  // OpenMP may grant fewer threads. oneDNN and the tiled kernels would then leave the missing threads' part undone.
  const int threads = impl_->threads = team_of(wanted);
  if (asked > threads)
    throw Failure(Exit::usage, "--threads " + std::to_string(asked) + ": OpenMP gives " + std::to_string(threads) +
                                   ". Raise OMP_THREAD_LIMIT or OMP_MAX_ACTIVE_LEVELS, or use fewer threads");
  omp_set_num_threads(threads);
  impl_->description =
      cpu_model() + ", " + std::to_string(threads) + (threads == 1 ? " thread" : " threads") + ", " + isa_name();
#pragma omp parallel num_threads(threads)
  {
    // Denormals cost about a hundred cycles each in attention and AdamW, so they are flushed to zero and read as zero.
    constexpr unsigned kFlushToZero = 0x8000, kDenormalsAreZero = 0x0040;
    _mm_setcsr(_mm_getcsr() | kFlushToZero | kDenormalsAreZero);
  }
}

Device::~Device() = default;

Stream& Device::stream() { return impl_->stream; }

std::byte* Device::allocate(std::size_t bytes) {
  const std::size_t size = round_up(bytes ? bytes : 1, kPage);
  const auto [available, file] = HostLimits().free_memory();
  if (available && size > available)
    throw Failure(Exit::does_not_fit, "the run needs " + gibibytes(size) + " of memory, but this " +
                                          (file.empty() ? "machine" : "process, by '" + file + "',") + " has " +
                                          gibibytes(available) +
                                          " available. Make batch.micro_batch or the model smaller");
  // Huge pages need stricter alignment. The slack is only address space and never touched.
  const bool huge = size >= 2 * kHugePage;
  const std::size_t mapped = huge ? size + kHugePage : size;
  void* address = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address == MAP_FAILED)
    throw Failure(Exit::does_not_fit, "the run needs " + gibibytes(size) + " of memory, " + gibibytes(available) +
                                          " are available, but the system refused: " + std::strerror(errno));
  impl_->mappings.push_back({address, mapped});
  auto* memory = static_cast<std::byte*>(address);
  if (huge) {
    memory += (kHugePage - reinterpret_cast<std::uintptr_t>(memory) % kHugePage) % kHugePage;
    // Advises whole huge pages only: a partial last one could make up to 2 MiB resident that the plan does not count.
    madvise(memory, size / kHugePage * kHugePage, MADV_HUGEPAGE);
  }
  return memory;
}

std::byte* Device::allocate_host(std::size_t bytes) { return allocate(bytes); }

void Device::copy_in(void* dst, const void* src, std::size_t bytes) { std::memcpy(dst, src, bytes); }

void Device::copy_out(void* dst, const void* src, std::size_t bytes) { std::memcpy(dst, src, bytes); }

void Device::copy(void* dst, const void* src, std::size_t bytes) {
  across_threads(bytes, [&](std::size_t first, std::size_t count) {
    std::memcpy(static_cast<std::byte*>(dst) + first, static_cast<const std::byte*>(src) + first, count);
  });
}

void Device::zero(void* dst, std::size_t bytes) {
  const Launched launched(impl_->stream.listener, impl_->stream, LaunchKind::memset);
  across_threads(bytes, [&](std::size_t first, std::size_t count) {
    std::memset(static_cast<std::byte*>(dst) + first, 0, count);
  });
}

void Device::synchronize() {}

bool Device::runs_ahead() const { return false; }

void Device::profile(bool) { throw Failure(Exit::internal, "a CPU has no profiler's capture to begin or to end"); }

void Device::listen(LaunchListener* listener) { impl_->stream.listener = listener; }

bool Device::profiled() const { return false; }

const char* Device::identity() const { return ""; }

const char* Device::description() const { return impl_->description.c_str(); }

int Device::threads() const { return impl_->threads; }

const char* Device::processors() const { return impl_->processors.c_str(); }

}  // namespace llmc
