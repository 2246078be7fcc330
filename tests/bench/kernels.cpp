// Bytes per second of kernel templates on the CPU at the quick start's shapes. OMP_NUM_THREADS sets the number of
// threads.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "device/cpu/launch.h"
#include "device/math.h"
#include "device/types.h"

namespace llmc {

#define LLMC_BENCHED(type)                                                                                        \
  void rms_norm_forward_##type(const type*, const float*, type*, float*);                                         \
  void rms_norm_backward_##type(const type*, const type*, const float*, const float*, const type*, type*, float*, \
                                type*);                                                                           \
  void swiglu_forward_##type(const type*, type*);                                                                 \
  void swiglu_backward_##type(const type*, const type*, type*, type*);                                            \
  void rope_##type(type*, const float*);                                                                          \
  void cross_entropy_##type(type*, const int*, float*, float*, float*, float*, const StepScalars*);               \
  void embedding_forward_##type(const int*, const type*, type*);                                                  \
  void adamw_##type(float*, const float*, float*, float*, type*, const Chunk*, int, int, const AdamwScalars*,     \
                    const GroupScalars*, const StepResults*, float*, float*);
LLMC_BENCHED(float)
LLMC_BENCHED(bf16)
void gradient_norm_float(const float*, const Chunk*, float*, int, int);
void column_reduce_float(const float*, float*, int);
void init_normal_float(float*, const InitRule*, const Chunk*, int, int, unsigned long long);

namespace {

constexpr int kRows = 2048, kHidden = 256, kFfn = 768, kQkv = 512, kTurned = 384, kVocab = 4096, kVocabRows = 512;
constexpr int kParameters = 1 << 22, kChunkSize = 16384;

/// Matrices are aligned to 64 bytes, as in an arena.
template <class T>
struct Aligned {
  using value_type = T;
  T* allocate(std::size_t n) { return static_cast<T*>(operator new(n * sizeof(T), std::align_val_t(64))); }
  void deallocate(T* p, std::size_t) { operator delete(p, std::align_val_t(64)); }
  bool operator==(const Aligned&) const = default;
};

template <class T>
std::vector<T, Aligned<T>> values(std::size_t count) {
  std::mt19937 engine(1);
  std::normal_distribution<float> normal;
  std::vector<T, Aligned<T>> all(count);
  for (T& v : all) v = from_float<T>(normal(engine));
  return all;
}

/// Launches the kernel repeatedly; `bytes` of one launch, `elements` of its widest row operand.
template <class Kernel, class... Arguments>
void measure(benchmark::State& state, double bytes, double elements, Kernel kernel, Arguments... arguments) {
  Stream stream;
  for (auto _ : state) launch(stream, kernel, arguments...);
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes * state.iterations()));
  state.counters["elements/ns"] = benchmark::Counter(elements * 1e-9 * state.iterations(), benchmark::Counter::kIsRate);
}

#define LLMC_BENCH(type)                                                                                               \
  void rms_norm_forward(benchmark::State& state, type) {                                                               \
    auto x = values<type>(kRows * kHidden), y = x;                                                                     \
    auto weight = values<float>(kHidden), rstd = values<float>(kRows);                                                 \
    measure(state, 2.0 * sizeof(type) * x.size(), x.size(), rms_norm_forward_##type, x.data(), weight.data(),          \
            y.data(), rstd.data());                                                                                    \
  }                                                                                                                    \
  void rms_norm_backward(benchmark::State& state, type) {                                                              \
    auto dy = values<type>(kRows * kHidden), x = dy, dx = dy, y = dy, residual = dy;                                   \
    auto weight = values<float>(kHidden), rstd = values<float>(kRows), partial = values<float>(256 * kHidden);         \
    measure(state, 5.0 * sizeof(type) * x.size(), x.size(), rms_norm_backward_##type, dy.data(), x.data(),             \
            weight.data(), rstd.data(), residual.data(), dx.data(), partial.data(), y.data());                         \
  }                                                                                                                    \
  void swiglu_forward(benchmark::State& state, type) {                                                                 \
    auto in = values<type>(2 * kRows * kFfn), out = values<type>(kRows * kFfn);                                        \
    measure(state, 3.0 * sizeof(type) * out.size(), out.size(), swiglu_forward_##type, in.data(), out.data());         \
  }                                                                                                                    \
  void swiglu_backward(benchmark::State& state, type) {                                                                \
    auto in = values<type>(2 * kRows * kFfn), din = in, dout = values<type>(kRows * kFfn), out = dout;                 \
    measure(state, 6.0 * sizeof(type) * out.size(), out.size(), swiglu_backward_##type, dout.data(), in.data(),        \
            din.data(), out.data());                                                                                   \
  }                                                                                                                    \
  void rope(benchmark::State& state, type) {                                                                           \
    auto qkv = values<type>(kRows * kQkv);                                                                             \
    std::vector<float> table(256 * 32, 0.5f);                                                                          \
    const double turned = static_cast<double>(kRows) * kTurned;                                                        \
    measure(state, 2.0 * sizeof(type) * turned, turned, rope_##type, qkv.data(), table.data());                        \
  }                                                                                                                    \
  void cross_entropy(benchmark::State& state, type) {                                                                  \
    auto logits = values<type>(kVocabRows * kVocab);                                                                   \
    auto losses = values<float>(kVocabRows), lse = losses, entropies = losses, correct = losses;                       \
    std::vector<int> targets(kVocabRows, 7);                                                                           \
    StepScalars scalars{};                                                                                             \
    scalars.loss_scale = 1;                                                                                            \
    measure(state, 2.0 * sizeof(type) * logits.size(), logits.size(), cross_entropy_##type, logits.data(),             \
            targets.data(), losses.data(), lse.data(), entropies.data(), correct.data(), &scalars);                    \
  }                                                                                                                    \
  void embedding_forward(benchmark::State& state, type) {                                                              \
    auto table = values<type>(kVocab * kHidden), out = values<type>(kRows * kHidden);                                  \
    std::vector<int> tokens(kRows);                                                                                    \
    for (int i = 0; i < kRows; ++i) tokens[i] = i * 37 % kVocab;                                                       \
    measure(state, 2.0 * sizeof(type) * out.size(), out.size(), embedding_forward_##type, tokens.data(), table.data(), \
            out.data());                                                                                               \
  }                                                                                                                    \
  void adamw(benchmark::State& state, type) {                                                                          \
    auto p = values<float>(kParameters), g = p, m = p, v = p;                                                          \
    for (float& e : v) e *= e;                                                                                         \
    auto copy = values<type>(kParameters);                                                                             \
    const auto all = chunks();                                                                                         \
    std::vector<float> weights(all.size()), updates(all.size());                                                       \
    AdamwScalars s{0.9f, 0.95f, 1e-8f, 0, {0.5f, 0.5f}, {0.5f, 0.5f}};                                                 \
    GroupScalars group{1e-9f, 0.1f};                                                                                   \
    StepResults results{.loss = 1.0, .grad_norm = 1.0f, .clip_scale = 1.0f};                                           \
    measure(state, (sizeof(type) == 2 ? 30.0 : 28.0) * kParameters, kParameters, adamw_##type, p.data(), g.data(),     \
            m.data(), v.data(), copy.data(), all.data(), 0, static_cast<int>(all.size()), &s, &group, &results,        \
            weights.data(), updates.data());                                                                           \
  }                                                                                                                    \
  BENCHMARK_CAPTURE(rms_norm_forward, type, type{})->UseRealTime();                                                    \
  BENCHMARK_CAPTURE(rms_norm_backward, type, type{})->UseRealTime();                                                   \
  BENCHMARK_CAPTURE(swiglu_forward, type, type{})->UseRealTime();                                                      \
  BENCHMARK_CAPTURE(swiglu_backward, type, type{})->UseRealTime();                                                     \
  BENCHMARK_CAPTURE(rope, type, type{})->UseRealTime();                                                                \
  BENCHMARK_CAPTURE(cross_entropy, type, type{})->UseRealTime();                                                       \
  BENCHMARK_CAPTURE(embedding_forward, type, type{})->UseRealTime();                                                   \
  BENCHMARK_CAPTURE(adamw, type, type{})->UseRealTime();

std::vector<Chunk> chunks() {
  std::vector<Chunk> all;
  for (int begin = 0; begin < kParameters; begin += kChunkSize) all.push_back({begin, begin, kChunkSize, 0, 0});
  return all;
}

LLMC_BENCH(float)
LLMC_BENCH(bf16)

void gradient_norm(benchmark::State& state) {
  auto gradients = values<float>(kParameters);
  const auto all = chunks();
  std::vector<float> partial(all.size());
  measure(state, 4.0 * kParameters, kParameters, gradient_norm_float, gradients.data(), all.data(), partial.data(), 0,
          static_cast<int>(all.size()));
}
BENCHMARK(gradient_norm)->UseRealTime();

void column_reduce(benchmark::State& state) {
  auto partial = values<float>(256 * kHidden), out = values<float>(kHidden);
  measure(state, 4.0 * partial.size(), partial.size(), column_reduce_float, partial.data(), out.data(), 0);
}
BENCHMARK(column_reduce)->UseRealTime();

void init_normal(benchmark::State& state) {
  std::vector<float> master(kParameters);
  const InitRule rule{0, kParameters / 1024, 1024, 1024, 1, 0.02f, 0.0f};
  const auto all = chunks();
  measure(state, 4.0 * kParameters, kParameters, init_normal_float, master.data(), &rule, all.data(), 0,
          static_cast<int>(all.size()), 1ull);
}
BENCHMARK(init_normal)->UseRealTime();

}  // namespace
}  // namespace llmc

BENCHMARK_MAIN();
