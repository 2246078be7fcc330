// GEMMs and attention of the quick-start run (2,048 tokens) in FLOP/s, next to the largest GEMM's rate.
#include "math/gemm.h"

#include <benchmark/benchmark.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "device/cpu/arch.h"
#include "device/device.h"
#include "device/types.h"
#include "math/tiles/fits.h"

namespace llmc {

void attention_forward_fp32(const float*, float*, float*);
void attention_backward_fp32(const float*, const float*, const float*, const float*, float*, float*);
void attention_forward_bf16(const bf16*, bf16*, float*);
void attention_backward_bf16(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*);
void attention_forward_tiles(const bf16*, bf16*, float*);
void attention_backward_tiles(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*);
void add_tile_registers();

namespace {

/// Normally distributed numbers: zeros run faster than any real run.
void fill(std::byte* memory, std::size_t count, DType dtype) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  for (std::size_t i = 0; i < count; ++i) {
    const float value = normal(engine);
    if (dtype == DType::f32)
      std::memcpy(memory + 4 * i, &value, 4);
    else
      std::memcpy(memory + 2 * i, reinterpret_cast<const std::byte*>(&value) + 2, 2);
  }
}

void product(benchmark::State& state, GemmShape shape, bool accumulate) {
  Device device(0, 0);
  MathLibrary library(device, nullptr, 0);
  const auto operand = [&](std::int64_t rows, std::int64_t cols, DType dtype) {
    const std::int64_t count = rows * (cols + 8);
    std::byte* memory = device.allocate(count * 4);
    fill(memory, count, dtype);
    return memory;
  };
  const std::byte* a = operand(shape.a().rows, shape.a().cols, shape.a().dtype);
  const std::byte* b = operand(shape.b().rows, shape.b().cols, shape.b().dtype);
  const std::byte* c = operand(shape.m, shape.n, shape.c().dtype);
  std::byte* d = operand(shape.m, shape.n, shape.d().dtype);
  const auto padded = [](std::int64_t cols) { return (cols + 7) / 8 * 8; };
  shape.pitch_a = padded(shape.a().cols);
  shape.pitch_b = padded(shape.b().cols);
  shape.pitch_d = padded(shape.n);
  shape.tiles = shape.tiles && fits_tiles(shape);
  const Gemm gemm(library, shape);
  for (auto _ : state)
    gemm(device.stream(), {a, b, shape.bias ? b : nullptr, shape.residual ? c : nullptr, d, accumulate});
  state.counters["FLOP/s"] = benchmark::Counter(shape.flops(), benchmark::Counter::kIsIterationInvariantRate);
}

template <class Act, class Forward, class Backward>
void attention(benchmark::State& state, bool backward_pass, Forward forward, Backward backward) {
  constexpr int kTokens = 2048, kLength = 256, kHeads = 8, kKvHeads = 4, kDim = 32;
  Device device(0, 0);
  const DType dtype = sizeof(Act) == 2 ? DType::bf16 : DType::f32;
  const auto tensor = [&](std::size_t count) {
    std::byte* memory = device.allocate(count * 4);
    fill(memory, count, dtype);
    return reinterpret_cast<Act*>(memory);
  };
  Act* qkv = tensor(kTokens * 512);
  Act* dqkv = tensor(kTokens * 512);
  Act* out = tensor(kTokens * 256);
  Act* dout = tensor(kTokens * 256);
  auto* lse = reinterpret_cast<float*>(device.allocate(kTokens * kHeads * 4));
  auto* workspace = reinterpret_cast<float*>(device.allocate(2ul * kTokens * kKvHeads * kDim * 4));
#pragma omp parallel
  forward(qkv, out, lse);
  for (auto _ : state) {
#pragma omp parallel
    if (backward_pass)
      backward(dout, out, qkv, lse, dqkv, workspace);
    else
      forward(qkv, out, lse);
  }
  // Two products forward and five backward, over the keys that a causal query sees.
  const double flops = (backward_pass ? 10.0 : 4.0) * kTokens * kHeads * kDim * (kLength + 1) / 2;
  state.counters["FLOP/s"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
}

void add(const std::string& name, const GemmShape& shape, bool accumulate = false) {
  const bool fits = shape.m % 32 == 0 && shape.n % 32 == 0 && shape.k % 32 == 0;
  if (shape.bf16x3() && !fits) return;  // would be oneDNN's, which is listed under fp32
  benchmark::RegisterBenchmark(name.c_str(), product, shape, accumulate)->UseRealTime();
}

/// `tiles`: GEMMs that fit use tiles, in fp32 as bf16x3.
void add_products(const std::string& prefix, DType dtype, bool tiles) {
  constexpr std::int64_t kTokens = 2048;
  const DType f32 = DType::f32;
  add(prefix + "ceiling", {.m = 2048, .n = 2048, .k = 2048, .operand = dtype, .result = dtype, .tiles = tiles});
  struct Linear {
    const char* name;
    std::int64_t in, out;
    bool residual;
  };
  for (const Linear& w :
       {Linear{"qkv", 256, 512, false}, Linear{"o", 256, 256, true}, Linear{"gate_up", 256, 1536, false},
        Linear{"down", 768, 256, true}, Linear{"head", 256, 4096, false},
        Linear{"head_of_odd_vocabulary", 256, 50257, false}, Linear{"head_of_even_vocabulary", 256, 50304, false}}) {
    add(prefix + w.name + "/forward", {.m = kTokens,
                                       .n = w.out,
                                       .k = w.in,
                                       .transpose_b = true,
                                       .operand = dtype,
                                       .result = dtype,
                                       .residual = w.residual,
                                       .tiles = tiles});
    add(prefix + w.name + "/dgrad",
        {.m = kTokens, .n = w.in, .k = w.out, .operand = dtype, .result = dtype, .tiles = tiles});
    const GemmShape wgrad{.m = w.out,
                          .n = w.in,
                          .k = kTokens,
                          .transpose_a = true,
                          .operand = dtype,
                          .result = f32,
                          .accumulates = true,
                          .tiles = tiles};
    add(prefix + w.name + "/wgrad", wgrad);
    add(prefix + w.name + "/wgrad_accumulate", wgrad, true);
  }
}

}  // namespace
}  // namespace llmc

int main(int argc, char** argv) {
  using namespace llmc;
  const bool tiles = cpu_has_tiles();
  add_products("fp32/", DType::f32, false);
  add_products("bf16/", DType::bf16, tiles);
  if (tiles) add_products("bf16x3/", DType::f32, true);
  for (const bool backward : {false, true}) {
    const std::string name = backward ? "attention/backward" : "attention/forward";
    benchmark::RegisterBenchmark(("fp32/" + name).c_str(), [=](benchmark::State& state) {
      attention<float>(state, backward, attention_forward_fp32, attention_backward_fp32);
    })->UseRealTime();
    benchmark::RegisterBenchmark(("bf16/" + name).c_str(), [=](benchmark::State& state) {
      attention<bf16>(state, backward, attention_forward_bf16, attention_backward_bf16);
    })->UseRealTime();
    if (!tiles) continue;
    require_tiles();
    benchmark::RegisterBenchmark(("tiles/" + name).c_str(), [=](benchmark::State& state) {
      attention<bf16>(state, backward, attention_forward_tiles, attention_backward_tiles);
    })->UseRealTime();
  }
  if (tiles) add_tile_registers();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
