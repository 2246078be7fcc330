#include "trainer/commands/product_rate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "device/fp8.h"
#include "device/math.h"
#include "error.h"
#include "host/clock.h"
#include "math/gemm_text.h"

namespace llmc {
namespace {

constexpr int kMostRounds = 5;
constexpr double kRoundSeconds = 2e-3;         // duration of launches timed together: far above the clock's resolution
constexpr double kAllSeconds = 15e-3;          // no round starts after this
constexpr double kMostLaunchesOfARound = 100;  // per round: tiny GEMMs are not worth more
constexpr std::int64_t kBoundedMultiple = 64;

/// `size`, reduced to a multiple of 64 if the GEMM has more than kBoundedFlops `flops`.
std::int64_t bounded_size(std::int64_t size, double flops) {
  const auto fitting = static_cast<std::int64_t>(static_cast<double>(size) * kBoundedFlops / flops);
  return std::min(size, std::max(kBoundedMultiple, fitting / kBoundedMultiple * kBoundedMultiple));
}

/// Numbers between -1 and 1, of codes between the largest ones; every block of memory gets the same ones.
template <class T>
std::vector<std::byte> random_block() {
  std::vector<T> block(1 << 16);
  std::minstd_rand generator(1);
  for (T& element : block) {
    const float value = static_cast<float>(generator()) / static_cast<float>(std::minstd_rand::max()) * 2 - 1;
    element = from_float<T>(std::is_same_v<T, e4m3>   ? value * kLargestE4m3
                            : std::is_same_v<T, e5m2> ? value * kLargestE5m2
                                                      : value);
  }
  const auto bytes = std::as_bytes(std::span(block));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> random_block(DType dtype) {
  if (dtype == DType::bf16) return random_block<bf16>();
  if (dtype == DType::f16) return random_block<fp16>();
  if (dtype == DType::e5m2) return random_block<e5m2>();
  return dtype == DType::e4m3 ? random_block<e4m3>() : random_block<float>();
}

}  // namespace

void fill_random(Device& device, std::byte* memory, std::size_t bytes, DType dtype) {
  const std::vector<std::byte> block = random_block(dtype);
  for (std::size_t at = 0; at < bytes; at += block.size())
    device.copy_in(memory + at, block.data(), std::min(block.size(), bytes - at));
}

std::optional<GemmShape> measured_shape(std::span<const GemmShape> products, bool bounded) {
  const GemmShape* most = nullptr;
  for (const GemmShape& shape : products)
    if (!shape.transpose_a && !shape.accumulates && (!most || shape.flops() > most->flops())) most = &shape;
  if (!most) return std::nullopt;
  GemmShape shape = *most;
  if (bounded && shape.flops() > kBoundedFlops) shape.n = shape.pitch_d = bounded_size(shape.n, shape.flops());
  if (bounded && shape.flops() > kBoundedFlops) shape.m = bounded_size(shape.m, shape.flops());
  return shape;
}

std::optional<ProductRate> measure_products(const ProgramInfo& info, int device_index, int threads) try {
  if (info.products.empty()) return std::nullopt;
  Device device(device_index, threads);
  const std::optional<GemmShape> shape = measured_shape(info.products, !device.runs_ahead());
  if (!shape) return std::nullopt;
  const auto size = [](std::int64_t bytes) { return (static_cast<std::size_t>(bytes) + 255) / 256 * 256; };
  const bool scaled = shape->scaling != Scaling::none;
  const std::size_t a_bytes = size(shape->a().extent()), b_bytes = size(shape->b().extent()),
                    bias_bytes = size(bytes_of(shape->bias_dtype(), shape->n)), d_bytes = size(shape->d().extent()),
                    c_bytes = shape->residual ? size(shape->c().extent()) : 0,
                    scale_a_bytes = size(bytes_of(DType::f32, shape->scales_a())),
                    scale_b_bytes = size(bytes_of(DType::f32, shape->scales_b()));
  const std::size_t workspace_bytes = info.math_workspace_bytes();
  std::byte* const a = device.allocate(a_bytes + b_bytes + bias_bytes + c_bytes + d_bytes + scale_a_bytes +
                                       scale_b_bytes + workspace_bytes);
  std::byte *b = a + a_bytes, *bias = b + b_bytes, *c = bias + bias_bytes, *d = c + c_bytes, *scale_a = d + d_bytes,
            *scale_b = scale_a + scale_a_bytes;
  fill_random(device, a, a_bytes, shape->a().dtype);
  fill_random(device, b, b_bytes, shape->b().dtype);
  fill_random(device, scale_a, scale_a_bytes + scale_b_bytes, DType::f32);
  MathLibrary library(device, workspace_bytes ? scale_b + scale_b_bytes : nullptr, workspace_bytes);
  const Gemm product(library, *shape);
  const GemmOperands operands = {.a = a,
                                 .b = b,
                                 .bias = shape->bias ? bias : nullptr,
                                 .c = shape->residual ? c : nullptr,
                                 .d = d,
                                 .scale_a = scaled ? reinterpret_cast<const float*>(scale_a) : nullptr,
                                 .scale_b = scaled ? reinterpret_cast<const float*>(scale_b) : nullptr};
  const auto seconds = [&](int launches) {
    const double begin = process_seconds();
    for (int i = 0; i < launches; ++i) product(device.stream(), operands);
    device.synchronize();
    return (process_seconds() - begin) / launches;
  };
  const double begin = process_seconds();
  seconds(1);  // the first run loads code
  double fastest = seconds(1);
  const int launches = static_cast<int>(std::clamp(std::ceil(kRoundSeconds / fastest), 1.0, kMostLaunchesOfARound));
  for (int round = 0; round < kMostRounds && process_seconds() - begin < kAllSeconds; ++round)
    fastest = std::min(fastest, seconds(launches));
  return ProductRate{shape->flops() / fastest, *shape};
} catch (const Failure& failure) {
  if (failure.code() != Exit::does_not_fit) throw;
  return std::nullopt;
}

std::string describe(const ProductRate& rate) {
  const GemmShape& shape = rate.shape;
  const bool tera = rate.flops >= 1e12;
  return fmt::format("{:.1f} {} measured, {} x {} x {} in {}", rate.flops / (tera ? 1e12 : 1e9),
                     tera ? "TFLOP/s" : "GFLOP/s", shape.m, shape.n, shape.k,
                     shape.bf16x3() ? "bf16x3" : operands_text(shape));
}

std::optional<double> rate_of_ranks(Rendezvous& ranks, const std::optional<ProductRate>& mine) {
  double sum = 0;
  for (const std::string& text : ranks.all_gather(mine ? fmt::format("{:a}", mine->flops) : "")) {
    if (text.empty()) return std::nullopt;
    sum += std::strtod(text.c_str(), nullptr);
  }
  return sum;
}

}  // namespace llmc
