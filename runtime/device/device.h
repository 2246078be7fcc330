// One accelerator (or the host's cores) as the trainer sees it: memory, ordered copies, a stream. One folder a target
// implements it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/hidden.h"

namespace llmc {

/// The order in which work runs. `cpu`: empty, everything runs at once; `cuda`: wraps a cudaStream_t.
struct Stream;
class LaunchListener;  // device/timeline.h

/// That may be asked for on cpu.
inline constexpr int kMostThreads = 4096;

class Device {
 public:
  /// `index`: which device (ignored on cpu); `threads`: OpenMP threads on cpu, 0 = as OMP_NUM_THREADS or the affinity
  /// mask says, or as many of these as OpenMP gives. Throws Failure(toolchain) when the machine has no such device,
  /// Failure(usage) for more than kMostThreads, and where `threads` is more than OpenMP gives.
  Device(int index, int threads);
  /// The index for the process of number `local_rank` on its machine: that number, counted round where this process is
  /// shown fewer devices than its machine has processes. `srun --gpus-per-task=1` and a Kubernetes pod show each its
  /// own. 0 on cpu. Throws Failure(toolchain) where CUDA
  /// finds none.
  static int index_of(int local_rank);
  /// Before the first kernel. Throws Failure(toolchain), with what kernels were compiled for and what this processor
  /// is, where it lacks some of their `instructions` (cpu/instructions.h). Nothing on cuda: there the driver says it.
  static void check_instructions(const char* arch, std::uint64_t instructions);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Stream& stream();

  /// Zero-filled, aligned to 4096 bytes, lives as long as the Device. Throws Failure(does_not_fit) with both sizes.
  std::byte* allocate(std::size_t bytes);

  /// Host memory that copy_out() reaches at the full speed of the link: pinned on cuda. Aligned and owned as above.
  /// Throws Failure(does_not_fit).
  std::byte* allocate_host(std::size_t bytes);

  /// Ordered with the stream's work. `src` may be reused when copy_in returns; `dst` of copy_out is valid after
  /// synchronize().
  void copy_in(void* dst, const void* src, std::size_t bytes);
  void copy_out(void* dst, const void* src, std::size_t bytes);
  void zero(void* dst, std::size_t bytes);
  /// Within the device; the two do not overlap.
  void copy(void* dst, const void* src, std::size_t bytes);
  void synchronize();

  /// Whether work goes on after the call that asked for it, so that the host can be ahead of it.
  bool runs_ahead() const;

  /// Tells a profiler to begin or to end its capture, between which nothing runs from recordings. Not on
  /// cpu.
  void profile(bool on);
  bool profiled() const;

  /// Tells `listener` of each launch on the device's streams from now on, none of which runs from recordings; null:
  /// nobody. Nothing waits for the device.
  void listen(LaunchListener* listener);

  /// One line for the log, as long as the Device lives: "AMD EPYC, 2 threads, avx512_bf16" or "NVIDIA H200 (sm_90),
  /// driver 580".
  const char* description() const;
  int threads() const;  // 1 on cuda
  /// What no other accelerator of this machine has; empty on cpu.
  const char* identity() const;

 private:
  struct Impl;
  Hidden<Impl> impl_;
};

}  // namespace llmc
