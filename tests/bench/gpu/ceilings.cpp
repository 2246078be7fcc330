// What the device can do at best: ceilings MiB SIZE... prints, as JSON, GB/s of a copy of so many MiB on the device
// (bytes read and written) and TFLOP/s of square bf16 products.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"
#include "device/math.h"
#include "error.h"
#include "math/gemm.h"

namespace llmc {

/// Median ms of ten runs after three.
template <class Run>
double median_ms(Stream& stream, const Run& run) {
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "an event");
  check(cudaEventCreate(&end), "an event");
  std::vector<double> times;
  for (int i = 0; i < 13; ++i) {
    check(cudaEventRecord(begin, stream.handle), "an event");
    run();
    check(cudaEventRecord(end, stream.handle), "an event");
    check(cudaEventSynchronize(end), "an event");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin, end), "an event");
    if (i >= 3) times.push_back(static_cast<double>(ms));
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

/// Normal numbers: on zeros a GPU draws less power and runs faster. A block of 2^20 is repeated.
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
  std::size_t largest = 0;
  for (int i = 2; i < argc; ++i) largest = std::max(largest, static_cast<std::size_t>(std::atoi(argv[i])));
  const std::size_t matrix = 2 * largest * largest;
  Device device(0, 0);
  Stream& stream = device.stream();
  std::byte* memory = device.allocate(workspace + std::max(2 * bytes, 3 * matrix));
  std::byte *from = memory + workspace, *to = from + bytes;
  const double copy = median_ms(stream, [&] {
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream.handle), "a copy on the device");
  });
  std::printf("{\"device\": \"%s\", \"copy_gb_s\": %.3f, \"gemm_tflop_s\": {", device.description().c_str(),
              2e-6 * static_cast<double>(bytes) / copy);
  fill(device, from, 2 * largest * largest);
  MathLibrary library(device, memory, workspace);
  for (int i = 2; i < argc; ++i) {
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
    const double ms =
        median_ms(stream, [&] { gemm(stream, from, from + matrix, nullptr, nullptr, from + 2 * matrix, false); });
    const double size = static_cast<double>(n);
    std::printf("%s\"%d\": %.3f", i > 2 ? ", " : "", static_cast<int>(n), 2e-9 * size * size * size / ms);
  }
  std::printf("}}\n");
  return 0;
}

}  // namespace llmc

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "ceilings MiB SIZE...\n");
    return 2;
  }
  try {
    return llmc::run(argc, argv);
  } catch (const llmc::Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return static_cast<int>(failure.code());
  }
}
