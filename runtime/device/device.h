// One accelerator (or the host's cores) as seen by the trainer: memory, ordered copies, a stream. Each target
// implements it in its own folder.
#pragma once

#include <cstddef>
#include <cstdint>

#include "program/hidden.h"

namespace llmc {

/// Order of execution. `cpu`: empty, everything runs immediately; `cuda`: wraps a cudaStream_t.
struct Stream;
class LaunchListener;  // device/timeline.h

/// Largest number of threads on cpu.
inline constexpr int kMostThreads = 4096;

class Device {
 public:
  /// `index`: device number (ignored on cpu). `threads`: OpenMP threads on cpu; 0: OMP_NUM_THREADS or the affinity
  /// mask, reduced to what OpenMP grants. Throws Failure(toolchain) if there is no such device, Failure(usage) if
  /// `threads` exceeds kMostThreads or OpenMP's limit, Failure(does_not_fit) if the system grants fewer.
  Device(int index, int threads);
  /// Device index for the process numbered `local_rank` on its machine: that number, modulo the visible devices. `srun
  /// --gpus-per-task=1` and Kubernetes pods show each process only its own. 0 on cpu. Throws Failure(toolchain) if CUDA
  /// finds no device.
  static int index_of(int local_rank);
  /// Call before the first kernel. Throws Failure(toolchain), naming the kernels' architecture and this processor, if
  /// it lacks some of their `instructions` (cpu/instructions.h). Does nothing on cuda: the driver reports it.
  static void check_instructions(const char* arch, std::uint64_t instructions);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  Stream& stream();

  /// Zero-filled, aligned to 4096 bytes, valid as long as the Device. Throws Failure(does_not_fit) with both sizes.
  std::byte* allocate(std::size_t bytes);

  /// Host memory that copy_out() fills at the link's full speed: pinned on cuda. Alignment and lifetime as allocate().
  /// Throws Failure(does_not_fit).
  std::byte* allocate_host(std::size_t bytes);

  /// Ordered with the stream's work. `src` may be reused when copy_in returns. `dst` of copy_out is valid after
  /// synchronize().
  void copy_in(void* dst, const void* src, std::size_t bytes);
  void copy_out(void* dst, const void* src, std::size_t bytes);
  void zero(void* dst, std::size_t bytes);
  /// Copies within the device; the ranges must not overlap.
  void copy(void* dst, const void* src, std::size_t bytes);
  void synchronize();

  /// Returns whether work continues after the call that started it, so that the host can run ahead.
  bool runs_ahead() const;

  /// Starts or stops a profiler's capture, during which no work runs from recordings. Does nothing on cpu.
  void profile(bool on);
  bool profiled() const;

  /// Reports each later launch on the device's streams to `listener`; null: to none. Launches of recordings are not
  /// reported (device/replay.h). Does not wait for the device.
  void listen(LaunchListener* listener);

  /// One line for the log, valid as long as the Device: "AMD EPYC, 2 threads, avx512_bf16" or "NVIDIA H200 (sm_90),
  /// driver 580".
  const char* description() const;
  int threads() const;  // 1 on cuda
  /// Numbers of the processors that the threads may use, "0 1 4 5", without limits on time; empty on cuda.
  const char* processors() const;
  /// Unique among the accelerators of this machine; empty on cpu.
  const char* identity() const;

 private:
  struct Impl;
  Hidden<Impl> impl_;
};

}  // namespace llmc
