// Peak rates of the device: ceilings MiB SECONDS SIZE... prints a line of JSON each for the data sheet's dense bf16
// TFLOP/s, if the runtime knows the device, GB/s of a copy of MiB on the device (bytes read and written), and TFLOP/s
// of square bf16 GEMMs, in a burst and sustained over SECONDS.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "device/math.h"
#include "error.h"
#include "event_clock.h"
#include "math/gemm.h"
#include "spec/gpus.h"

namespace llmc {

/// Median ms of ten runs after three.
template <class Run>
double median_ms(Stream& stream, const Run& run) {
  bench::EventClock clock(stream);
  std::vector<double> times;
  for (int i = 0; i < 13; ++i) {
    clock.begin();
    run();
    const double ms = clock.end();
    if (i >= 3) times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Mean ms over continuous runs for `seconds`: of a warm device at the clock that its power limit allows.
template <class Run>
double sustained_ms(Stream& stream, double seconds, double burst_ms, const Run& run) {
  bench::EventClock clock(stream);
  const auto start = std::chrono::steady_clock::now();
  const int batch = std::clamp(static_cast<int>(50 / burst_ms), 1, 1000);  // the host waits about 20 times a second
  int count = 0;
  double ms = 0;
  clock.begin();
  do {
    for (int i = 0; i < batch; ++i, ++count) run();
    ms = clock.end();
  } while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() < seconds);
  return ms / count;
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Burst and sustained figures: work / ms of a run, and begin and end of the sustained one.
template <class Run>
void print_rates(Stream& stream, const char* what, double seconds, double work, const Run& run) {
  const double burst = median_ms(stream, run), begin = now();
  const double sustained = sustained_ms(stream, seconds, burst, run);
  std::printf("{\"what\": \"%s\", \"burst\": %.3f, \"sustained\": %.3f, \"begin\": %.6f, \"end\": %.6f}\n", what,
              work / burst, work / sustained, begin, now());
  std::fflush(stdout);
}

/// Normally distributed numbers: on zeros a GPU draws less power and runs faster. A block of 2^20 is repeated.
void fill(Device& device, std::byte* to, std::size_t elements) {
  std::mt19937 generator(1);
  std::normal_distribution<float> draw;
  std::vector<bf16> block(std::min(elements, std::size_t{1} << 20));
  for (bf16& value : block) value = from_float<bf16>(draw(generator));
  for (std::size_t at = 0; at < elements; at += block.size())
    device.copy_in(to + 2 * at, block.data(), 2 * std::min(block.size(), elements - at));
}

int run(int argc, char** argv) {
  const std::size_t bytes = std::strtoull(argv[1], nullptr, 10) << 20, workspace = std::size_t{32} << 20;
  const double seconds = std::strtod(argv[2], nullptr);
  std::size_t largest = 0;
  for (int i = 3; i < argc; ++i) largest = std::max(largest, static_cast<std::size_t>(std::atoi(argv[i])));
  const std::size_t matrix = 2 * largest * largest;
  Device device(0, 0);
  Stream& stream = device.stream();
  std::byte* memory = device.allocate(workspace + std::max(2 * bytes, 3 * matrix));
  std::byte *from = memory + workspace, *to = from + bytes;
  fill(device, from, 2 * largest * largest);
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  if (const spec::Gpu* gpu = spec::gpu_that_reports(properties.name))
    std::printf("{\"what\": \"peak\", \"bf16\": %.1f}\n", 1e-12 * gpu->bf16);
  print_rates(stream, "copy", seconds, 2e-6 * static_cast<double>(bytes), [&] {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream.handle), "a copy on the device");
  });
  fill(device, from, 2 * largest * largest);  // which a copy may have overwritten
  MathLibrary library(device, memory, workspace);
  for (int i = 3; i < argc; ++i) {
    const std::int64_t n = std::atoi(argv[i]);
    const Gemm gemm(library, {.m = n,
                              .n = n,
                              .k = n,
                              .transpose_b = true,
                              .pitch_a = n,
                              .pitch_b = n,
                              .pitch_d = n,
                              .operand = DType::bf16,
                              .result = DType::bf16});
    const double size = static_cast<double>(n);
    print_rates(stream, argv[i], seconds, 2e-9 * size * size * size,
                [&] { gemm(stream, {from, from + matrix, nullptr, nullptr, from + 2 * matrix, false}); });
  }
  return 0;
}

}  // namespace llmc

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "ceilings MiB SECONDS SIZE...\n");
    return 2;
  }
  try {
    return llmc::run(argc, argv);
  } catch (const llmc::Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return static_cast<int>(failure.code());
  }
}
