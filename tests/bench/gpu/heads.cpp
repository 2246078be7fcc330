// Rates of attention's passes by shape and mask, llmc's own by products of warpgroups and cuDNN's: heads SECONDS prints
// a line of JSON for each. TFLOP/s count the scores under the mask.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "device/cuda/launch.h"
#include "device/cuda/tile_map.h"
#include "error.h"
#include "event_clock.h"
#include "math/attention.h"
#include "tests/unit/cuda/instance.h"
#include "tests/unit/cuda/numbers.h"

namespace llmc {

// Instances from heads.cmake.
LLMC_DECLARE_ATTENTION(warpgroups_of_64, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_of_64_sliding, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_of_128, bf16)
LLMC_DECLARE_ATTENTION(warpgroups_of_128_sliding, bf16)
#define LLMC_DECLARE_SHARED(name)                                                                             \
  LLMC_DECLARE_INSTANCE(attention_forward_warpgroups_multicast_4_##name, const bf16*, bf16*, float*, TileMap) \
  LLMC_DECLARE_INSTANCE(attention_backward_queries_warpgroups_multicast_4_##name, const bf16*, const bf16*,   \
                        const bf16*, const float*, bf16*, float*, TileMap)
LLMC_DECLARE_SHARED(of_64)
LLMC_DECLARE_SHARED(of_64_sliding)
LLMC_DECLARE_SHARED(of_128)
LLMC_DECLARE_SHARED(of_128_sliding)

namespace {

struct Own {
  void (*forward)(const bf16*, bf16*, float*);
  void (*queries)(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*);
  void (*keys)(const bf16*, const bf16*, const float*, const float*, bf16*);
  // With copies of keys and values for clusters of four blocks.
  void (*shared_forward)(const bf16*, bf16*, float*, TileMap);
  void (*shared_queries)(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*, TileMap);
};

struct Case {
  AttentionShape shape;
  Own own;
};

AttentionShape shape_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim, int window) {
  return {.batch = 16,
          .sequence = 2048,
          .heads = heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .qkv_pitch = (heads + 2 * kv_heads) * head_dim,
          .out_pitch = heads * head_dim,
          .deterministic = true,
          .window = window};
}

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// One shape's tensors. lse and out are those of a forward pass, so that the backward pass sees probabilities.
class Bench {
 public:
  Bench(Device& device, const AttentionShape& shape, double seconds)
      : device_(device), s_(shape), seconds_(seconds), pieces_(device, std::size_t{3} << 30) {
    const auto tokens = static_cast<std::size_t>(s_.batch * s_.sequence);
    qkv = pieces_.put_bf16(normal(tokens * static_cast<std::size_t>(s_.qkv_pitch), 1));
    dout = pieces_.put_bf16(normal(tokens * static_cast<std::size_t>(s_.out_pitch), 2));
    out = reinterpret_cast<bf16*>(pieces_.take(tokens * static_cast<std::size_t>(s_.out_pitch) * sizeof(bf16)));
    dqkv = reinterpret_cast<bf16*>(pieces_.take(tokens * static_cast<std::size_t>(s_.qkv_pitch) * sizeof(bf16)));
    lse = reinterpret_cast<float*>(pieces_.take(tokens * static_cast<std::size_t>(s_.heads) * sizeof(float)));
    workspace = pieces_.take(attention_workspace_bytes(s_));
    library_workspace = pieces_.take(kLibrary);
  }

  void time(const char* way, const char* pass, int products, const std::function<void()>& run) {
    bench::EventClock clock(device_.stream());
    const auto ms_of = [&](int runs) {
      clock.begin();
      for (int i = 0; i < runs; ++i) run();
      return clock.end() / runs;
    };
    run();
    const double burst = ms_of(5), begin = now();
    const int batch = std::max(1, static_cast<int>(50 / burst));
    double ms = 0;
    int batches = 0;
    do ms += ms_of(batch), ++batches;
    while (now() - begin < seconds_);
    const double flops = products * 2 * s_.mask().scores() * static_cast<double>(s_.batch * s_.heads * s_.head_dim);
    std::printf(
        "{\"heads\": \"%lld/%lld of %lld\", \"window\": %d, \"way\": \"%s\", \"pass\": \"%s\", \"ms\": %.4f, "
        "\"burst\": %.1f, \"sustained\": %.1f, \"begin\": %.6f, \"end\": %.6f}\n",
        static_cast<long long>(s_.heads), static_cast<long long>(s_.kv_heads), static_cast<long long>(s_.head_dim),
        s_.window, way, pass, ms / batches, 1e-9 * flops / burst, 1e-9 * flops / (ms / batches), begin, now());
    std::fflush(stdout);
  }

  static constexpr std::size_t kLibrary = std::size_t{32} << 20;
  bf16 *qkv, *dout, *out, *dqkv;
  float* lse;
  std::byte *workspace, *library_workspace;

 private:
  Device& device_;
  AttentionShape s_;
  double seconds_;
  Pieces pieces_;
};

void measure(Device& device, const Case& each, double seconds) {
  const AttentionShape& s = each.shape;
  Bench b(device, s, seconds);
  Stream& stream = device.stream();
  // As in compiler/ops/attention/attention.cpp.
  const auto grid = [&](std::int64_t heads, unsigned tiles, unsigned more, unsigned cluster = 1) {
    const unsigned tile = s.head_dim > 64 ? 16384 : 8192;
    return Grid{static_cast<unsigned>(s.batch * heads * ((s.sequence + 63) / 64)), 128, cluster, tiles * tile + more};
  };
  auto* delta = reinterpret_cast<float*>(b.workspace);
  b.time("llmc", "forward", 2, [&] { launch(stream, grid(s.heads, 4, 0), each.own.forward, b.qkv, b.out, b.lse); });
  b.time("llmc", "backward: queries", 3,
         [&] { launch(stream, grid(s.heads, 4, 0), each.own.queries, b.dout, b.out, b.qkv, b.lse, b.dqkv, delta); });
  b.time("llmc", "backward: keys", 4, [&] {
    launch(stream, grid(s.kv_heads, s.head_dim > 64 ? 6 : 4, 1024), each.own.keys, b.dout, b.qkv, b.lse, delta, b.dqkv);
  });
  const auto number = [](std::int64_t n) { return static_cast<int>(n); };
  const TileMap map = map_of_heads(b.qkv, number(s.batch), number(s.sequence), number(s.heads + 2 * s.kv_heads),
                                   number(s.head_dim), number(s.qkv_pitch), 16);
  b.time("llmc, keys read once a group", "forward", 2,
         [&] { launch(stream, grid(s.heads, 4, 32, 4), each.own.shared_forward, b.qkv, b.out, b.lse, map); });
  b.time("llmc, keys read once a group", "backward: queries", 3, [&] {
    launch(stream, grid(s.heads, 4, 32, 4), each.own.shared_queries, b.dout, b.out, b.qkv, b.lse, b.dqkv, delta, map);
  });
  constexpr BackwardWay kWay[] = {{AttentionBy::cudnn}};
  MathLibrary library(device, b.library_workspace, Bench::kLibrary);
  const Attention attention(library, {s, kWay});
  b.time("cuDNN", "forward", 2, [&] { attention.forward(stream, b.qkv, b.out, b.lse); });
  b.time("cuDNN", "backward", 5, [&] { attention.backward(stream, b.dout, b.out, b.qkv, b.lse, b.dqkv, b.workspace); });
}

#define LLMC_OWN(name)                                                                         \
  {attention_forward_warpgroups_##name, attention_backward_queries_warpgroups_##name,          \
   attention_backward_keys_warpgroups_##name, attention_forward_warpgroups_multicast_4_##name, \
   attention_backward_queries_warpgroups_multicast_4_##name}

}  // namespace
}  // namespace llmc

int main(int argc, char** argv) {
  using namespace llmc;
  if (argc != 2) {
    std::fprintf(stderr, "heads SECONDS\n");
    return 2;
  }
  try {
    const Case cases[] = {{shape_of(32, 8, 64, 0), LLMC_OWN(of_64)},
                          {shape_of(32, 8, 64, 512), LLMC_OWN(of_64_sliding)},
                          {shape_of(16, 4, 128, 0), LLMC_OWN(of_128)},
                          {shape_of(16, 4, 128, 512), LLMC_OWN(of_128_sliding)}};
    for (const Case& each : cases) {
      Device device(0, 0);
      measure(device, each, std::strtod(argv[1], nullptr));
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
