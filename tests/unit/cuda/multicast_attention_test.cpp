// Attention whose blocks share copies of keys and values has the bits of the same kernels without, on a simulated and
// on a real GPU. portable_attention_test.cpp compares those with the formulas.
#include <gtest/gtest.h>

#include <tuple>

#include "attention_formulas.h"
#include "device/cuda/launch.h"
#include "device/cuda/tile_map.h"
#include "instance.h"

namespace llmc {

// Instances from portable_attention.cmake.
#define LLMC_FORWARD(name, ...) \
  LLMC_DECLARE_INSTANCE(attention_forward_warpgroups_##name, const bf16*, bf16*, float* __VA_ARGS__)
#define LLMC_QUERIES(name, ...)                                                                              \
  LLMC_DECLARE_INSTANCE(attention_backward_queries_warpgroups_##name, const bf16*, const bf16*, const bf16*, \
                        const float*, bf16*, float* __VA_ARGS__)
#define LLMC_PLAIN(name) LLMC_FORWARD(name) LLMC_QUERIES(name)
#define LLMC_MULTICAST(name) LLMC_FORWARD(multicast_##name, , TileMap) LLMC_QUERIES(multicast_##name, , TileMap)
LLMC_PLAIN(shared)
LLMC_PLAIN(few)
LLMC_PLAIN(broad)
LLMC_PLAIN(broad_padded)
LLMC_PLAIN(broad_sliding)
LLMC_PLAIN(broad_capped)
LLMC_MULTICAST(4_shared)
LLMC_MULTICAST(4_few)
LLMC_MULTICAST(2_broad)
LLMC_MULTICAST(2_broad_padded)
LLMC_MULTICAST(2_broad_sliding)
LLMC_MULTICAST(2_broad_capped)
LLMC_FORWARD(divided, , const int*, const int*)
LLMC_QUERIES(divided, , const int*, const int*)
LLMC_FORWARD(multicast_2_divided, , const int*, const int*, TileMap)
LLMC_QUERIES(multicast_2_divided, , const int*, const int*, TileMap)
LLMC_QUERIES(rotated_broad_divided, , const float*, const int*, const int*)
LLMC_QUERIES(multicast_2_rotated_broad_divided, , const float*, const int*, const int*, TileMap)

namespace {

/// The passes that own queries, with the interface of class Attention; no forward pass leaves out and lse as they are.
/// More: operands after those of all instances.
template <class... More>
struct Queries {
  void (*forward_kernel)(const bf16*, bf16*, float*, More...);
  void (*queries_kernel)(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*, More...);
  AttentionShape s;
  int blocks_of_cluster;
  std::tuple<More...> more;

  Grid grid() const {
    const unsigned tiles = s.head_dim > 64 ? 65536 : 32768;  // two buffers of keys and values
    const std::int64_t blocks = s.batch * s.heads * ((s.sequence + 63) / 64);
    return {static_cast<unsigned>(blocks), 128, static_cast<unsigned>(blocks_of_cluster),
            tiles + (blocks_of_cluster > 1 ? 32 : 0)};
  }
  void forward(Stream& stream, const bf16* qkv, bf16* out, float* lse) const {
    if (!forward_kernel) return;
    std::apply([&](More... m) { launch(stream, grid(), forward_kernel, qkv, out, lse, m...); }, more);
  }
  void backward(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv, const float* lse, bf16* dqkv,
                void* delta) const {
    std::apply(
        [&](More... m) {
          launch(stream, grid(), queries_kernel, dout, out, qkv, lse, dqkv, static_cast<float*>(delta), m...);
        },
        more);
  }
};

/// Rows of documents and RoPE's table, as far as the kernels have them.
template <class... Rows>
std::tuple<Rows...> rows_of(const AttentionShape& s, Pieces& pieces) {
  const Documents documents(s);
  [[maybe_unused]] const auto put = [&](const std::vector<int>& row) { return pieces.put(row); };
  if constexpr (sizeof...(Rows) == 2) {
    return {put(documents.begin), put(documents.end)};
  } else if constexpr (sizeof...(Rows) == 3) {
    std::vector<float> table(static_cast<std::size_t>(s.sequence * s.head_dim));
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i % 7) / 8;
    return {pieces.put(table), put(documents.begin), put(documents.end)};
  } else {
    return {};
  }
}

/// Kernels without copies for other blocks, and with them for `blocks` blocks.
template <class... Rows>
struct Case {
  AttentionShape s;
  int blocks;
  void (*own_forward)(const bf16*, bf16*, float*, Rows...);
  void (*own_queries)(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*, Rows...);
  void (*shared_forward)(const bf16*, bf16*, float*, Rows..., TileMap);
  void (*shared_queries)(const bf16*, const bf16*, const bf16*, const float*, bf16*, float*, Rows..., TileMap);
};

template <class... Rows>
void check(const Case<Rows...>& c) {
  const AttentionShape& s = c.s;
  const std::size_t delta_bytes = static_cast<std::size_t>(s.batch * s.heads * s.sequence) * sizeof(float);
  const AttentionRun own(s, delta_bytes, [&](Device&, Pieces& pieces) {
    return Queries<Rows...>{c.own_forward, c.own_queries, s, 1, rows_of<Rows...>(s, pieces)};
  });
  // The map needs the rows of q, k and v, which are known at the launch.
  struct Shared {
    Case<Rows...> c;
    std::tuple<Rows...> rows;

    Queries<Rows..., TileMap> with_map(const bf16* qkv) const {
      const AttentionShape& s = c.s;
      const auto number = [](std::int64_t n) { return static_cast<int>(n); };
      const TileMap map = map_of_heads(qkv, number(s.batch), number(s.sequence), number(s.heads + 2 * s.kv_heads),
                                       number(s.head_dim), number(s.qkv_pitch), 64 / c.blocks);
      return {c.shared_forward, c.shared_queries, s, c.blocks, std::tuple_cat(rows, std::tuple(map))};
    }
    void forward(Stream& stream, const bf16* qkv, bf16* out, float* lse) const {
      with_map(qkv).forward(stream, qkv, out, lse);
    }
    void backward(Stream& stream, const bf16* dout, const bf16* out, const bf16* qkv, const float* lse, bf16* dqkv,
                  void* delta) const {
      with_map(qkv).backward(stream, dout, out, qkv, lse, dqkv, delta);
    }
  };
  const AttentionRun shared(s, delta_bytes,
                            [&](Device&, Pieces& pieces) { return Shared{c, rows_of<Rows...>(s, pieces)}; });
  EXPECT_EQ(own.out, shared.out);
  EXPECT_EQ(own.lse, shared.lse);
  EXPECT_EQ(own.dq_dk_dv, shared.dq_dk_dv);
  EXPECT_EQ(shared.dq_dk_dv, shared.again);
}

#define LLMC_CHECK(test, Case, blocks, name, ...)                                   \
  TEST(MulticastAttention, test) {                                                  \
    check(Case{{__VA_ARGS__},                                                       \
               blocks,                                                              \
               attention_forward_warpgroups_##name,                                 \
               attention_backward_queries_warpgroups_##name,                        \
               attention_forward_warpgroups_multicast_##blocks##_##name,            \
               attention_backward_queries_warpgroups_multicast_##blocks##_##name}); \
  }

using Plain = Case<>;
using OfDocuments = Case<const int*, const int*>;

// Numbers as in portable_attention.cmake.
LLMC_CHECK(FourHeadsOfAKeyHeadAndAPartOfATile, Plain, 4, shared, 2, 200, 8, 2, 64, 776, 520)
LLMC_CHECK(FiveTokens, Plain, 4, few, 3, 5, 4, 1, 64, 384, 256)
LLMC_CHECK(Documents, OfDocuments, 2, divided, 3, 200, 4, 2, 64, 520, 264, true, 0, 0, true)
LLMC_CHECK(HeadsOf128, Plain, 2, broad, 2, 200, 4, 2, 128, 1032, 520)
LLMC_CHECK(HeadsOf80, Plain, 2, broad_padded, 1, 140, 4, 2, 80, 648, 328)
LLMC_CHECK(AWindowOfHeadsOf128, Plain, 2, broad_sliding, 1, 200, 2, 1, 128, 520, 264, true, 70)
LLMC_CHECK(ASoftCapInAWindow, Plain, 2, broad_capped, 1, 130, 2, 1, 128, 520, 264, true, 50, 0, false, true)

TEST(MulticastAttention, RotatedGradientsOfHeadsOf96) {
  check(Case<const float*, const int*, const int*>{
      {2, 200, 2, 1, 96, 392, 200, true, 21, 0, true},
      2,
      nullptr,
      attention_backward_queries_warpgroups_rotated_broad_divided,
      nullptr,
      attention_backward_queries_warpgroups_multicast_2_rotated_broad_divided});
}

}  // namespace
}  // namespace llmc
