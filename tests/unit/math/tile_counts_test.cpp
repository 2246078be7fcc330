// Counts the tile instructions of the kernels in tiles on the quick start's GEMMs, by the software model, and compares
// them with the fewest possible.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "device/cpu/tiles.h"
#include "device/types.h"
#include "math/tiles/linear.h"
#include "math/tiles/weight_gradient.h"

namespace llmc {

// Two sequences of the quick start: 256 tokens, 8 heads over 4 key heads, of 32.
void attention_forward_tiles_soft_half_grouped(const bf16*, bf16*, float*);
void attention_backward_tiles_soft_half_grouped(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*);
void linear_product_soft(const GemmShape&, const void*, const void*, const void*, const void*, void*, int, int, void*);
void weight_gradient_soft(const GemmShape&, const void*, const void*, void*, bool, int, int, void*);

namespace {

constexpr double kTileMacs = 16 * 16 * 32;  // of one TDPBF16PS

/// Counts of `work`, printed as a row of docs/reference/kernel-counts.md; `macs`: multiply-adds that its GEMMs need.
template <class Work>
TileCounts counted(const char* name, double macs, Work work) {
  tile_counts = {};
  work();
  const TileCounts found = tile_counts;
  const auto products = static_cast<double>(found.products);
  std::printf("| %s | %lld | %.3f | %.3f | %.3f |\n", name, found.products, products / (macs / kTileMacs),
              static_cast<double>(found.loads) / products, static_cast<double>(found.stores) / products);
  return found;
}

/// Memory aligned to a cache line.
class Memory {
 public:
  explicit Memory(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes) + 64) {}
  template <class T>
  T* as() {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data());
    return reinterpret_cast<T*>(bytes_.data() + (64 - address % 64) % 64);
  }

 private:
  std::vector<std::byte> bytes_;
};

TEST(TileCounts, OfAttention) {
  constexpr int kRows = 512, kPitch = 520, kOutPitch = 272;
  Memory qkv(2 * kRows * kPitch), out(2 * kRows * kOutPitch), lse(4 * 16 * 256), workspace(4 * 2 * 8 * 256 * 32);
  const double scores = 16.0 * 256 * 257 / 2;  // below and on the diagonals of 16 heads
  const TileCounts forward = counted("attention forward", 2 * 32 * scores, [&] {
    attention_forward_tiles_soft_half_grouped(qkv.as<bf16>(), out.as<bf16>(), lse.as<float>());
  });
  const TileCounts backward = counted("attention backward", 5 * 32 * scores, [&] {
    attention_backward_tiles_soft_half_grouped(out.as<bf16>(), out.as<bf16>(), qkv.as<bf16>(), lse.as<float>(),
                                               qkv.as<bf16>(), workspace.as<float>());
  });
  // Blocks of 32 x 32 scores, with whole blocks on the diagonal: 36 for each of the 16 heads, with 4 tile products per
  // depth of 32.
  EXPECT_EQ(forward.products, 2 * 4 * 36 * 16);
  EXPECT_EQ(backward.products, 5 * 4 * 36 * 16);
  // A head of 32 is one step of 32 along the sum, so each product's accumulator is loaded from memory or starts at
  // zero.
  EXPECT_LE(forward.loads, 2 * forward.products);
  EXPECT_LE(backward.loads, 2 * backward.products);
  EXPECT_LE(forward.stores + backward.stores, forward.products + backward.products);
}

struct Linear {
  const char *forward, *data_gradient, *weight_gradient;
  std::int64_t in, out;
};

TEST(TileCounts, OfLinearLayers) {
  constexpr std::int64_t kRows = 256;
  for (const Linear& w :
       {Linear{"qkv forward", "qkv data gradient", "qkv weight gradient", 256, 512},
        Linear{"gate, up forward", "gate, up data gradient", "gate, up weight gradient", 256, 1536}}) {
    const double macs = static_cast<double>(kRows * w.in * w.out);
    Memory a(2 * kRows * w.out), b(2 * w.in * w.out), d(4 * w.in * w.out + 4 * kRows * w.out);
    const auto linear = [&](const char* name, std::int64_t n, std::int64_t k, bool transposed) {
      const GemmShape shape{.m = kRows,
                            .n = n,
                            .k = k,
                            .transpose_b = transposed,
                            .pitch_a = k,
                            .pitch_b = transposed ? k : n,
                            .pitch_d = n,
                            .operand = DType::bf16,
                            .result = DType::bf16};
      Memory workspace(static_cast<std::int64_t>(linear_product_bytes(shape)));
      return counted(name, macs, [&] {
        linear_product_soft(shape, a.as<void>(), b.as<void>(), nullptr, nullptr, d.as<void>(), 0, 1,
                            workspace.as<void>());
      });
    };
    const GemmShape gradient{.m = w.out,
                             .n = w.in,
                             .k = kRows,
                             .transpose_a = true,
                             .pitch_a = w.out,
                             .pitch_b = w.in,
                             .pitch_d = w.in,
                             .operand = DType::bf16};
    Memory copies(static_cast<std::int64_t>(weight_gradient_bytes(gradient)));
    for (const TileCounts& found : {linear(w.forward, w.out, w.in, true), linear(w.data_gradient, w.in, w.out, false),
                                    counted(w.weight_gradient, macs, [&] {
                                      weight_gradient_soft(gradient, a.as<void>(), b.as<void>(), d.as<void>(), false, 0,
                                                           1, copies.as<void>());
                                    })}) {
      EXPECT_EQ(static_cast<double>(found.products), macs / kTileMacs) << "no product is made twice";
      // Two products share each tile of B: 1.5 loads each. Accumulators are loaded and stored once per chunk of 256:
      // four tiles.
      EXPECT_LE(static_cast<double>(found.loads), (1.5 + 4.0 / 32) * static_cast<double>(found.products));
      EXPECT_LE(static_cast<double>(found.stores), 4.0 / 32 * static_cast<double>(found.products));
    }
  }
}

}  // namespace
}  // namespace llmc
