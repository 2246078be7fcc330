// attention_forward in AMX tiles: both products in tile registers, the softmax between them in vectors.
//
// Scores are transposed, S^T[key][query], as in attention_forward.cpp, which defines the result. Work is divided into
// units of 32 queries of one head and blocks of 32 keys. A unit uses a whole block, half of it on the diagonal, or none
// of it.
#include "device/cpu/pack.h"
#include "device/cpu/tiles.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kGroupHeads = kHeads / kKvHeads;
/// A tile of queries is four units if possible: heads that share a key head first, then further queries.
constexpr int kTileHeads = kGroupHeads % 4 == 0 ? 4 : kGroupHeads % 3 == 0 ? 3 : kGroupHeads % 2 == 0 ? 2 : 1;
constexpr int kQueryBlocks = 4 / kTileHeads;
constexpr int kUnits = kQueryBlocks * kTileHeads;  // unit u: head u % kTileHeads, query block u / kTileHeads
constexpr int kTileQueries = kQueryBlocks * 32;
constexpr int kTiles = (kSequence + kTileQueries - 1) / kTileQueries;
constexpr int kDim = (kHeadDim + 31) / 32 * 32;  // padded with zeros
constexpr int kWords = kDim / 2;
constexpr float kLogScale = kLog2e * kScale;  // scores are exponents of 2
constexpr float kNothing = -1e30f;            // the score of a key after the query
/// A maximum stays until a score exceeds it by this much: weights then reach 2^11, and sums are seldom rescaled.
constexpr float kSlack = 11.0f;

/// The state of one tile of queries between blocks of keys.
struct ForwardTile {
  alignas(64) float queries[kUnits][kWords * 32];  // q^T [kWords, 32]
  alignas(64) float sums[kUnits][kDim * 32];       // [kDim, 32], sum of exp(score - maximum) * value
  alignas(64) float maximum[kUnits][32];           // of the scores so far, times kLogScale, or up to kSlack below
  alignas(64) float denominator[kUnits][32];
  alignas(64) float scores[2][32 * 32];   // [keys, queries], then their exponentials; unit u uses number u % 2
  alignas(64) float weights[2][16 * 32];  // the exponentials as pairs of keys
  alignas(64) float keys[32 * kWords];
  alignas(64) float values[kDim * 16];  // v^T, pairs of keys
  int past[32];  // with kBounded: queries from here on, relative to the tile's first, do not see key i of the block
};

/// Raises the maxima of a unit to at least `top`, and rescales the sums under the old ones.
LLMC_TILE void raise(ForwardTile& tile, int unit, const float* top) {
  for (int v = 0; v < 32; v += kVectorLanes) {
    const vector before = load(tile.maximum[unit] + v), now = larger(load(top + v), before);
    const vector shrink = exp2(before - now);
    store(tile.maximum[unit] + v, now);
    store(tile.denominator[unit] + v, load(tile.denominator[unit] + v) * shrink);
    for (int d = 0; d < kHeadDim; ++d) {
      float* sum = tile.sums[unit] + d * 32 + v;
      store(sum, load(sum) * shrink);
    }
  }
}

/// Computes a unit's scores of the block of keys, unscaled.
LLMC_TILE void multiply_keys(Tiles& tiles, ForwardTile& tile, int unit) {
  multiply_block<false>(tiles, {tile.keys, kWords, 16}, {tile.queries[unit], 32, 16 * 32}, kDim / 32,
                        tile.scores[unit % 2], 32);
}

/// Converts a unit's scores to weights. kDiagonal: key i is masked for the queries before i.
template <bool kDiagonal>
LLMC_TILE void softmax(ForwardTile& tile, int unit) {
  float* scores = tile.scores[unit % 2];
  vector highest[2] = {kNothing - vector{}, kNothing - vector{}};
  for (int key = 0; key < 32; ++key) {
    for (int v = 0; v < 2; ++v) {
      float* line = scores + key * 32 + v * kVectorLanes;
      if constexpr (kSoftcap > 0) store(line, soft_cap(load(line), kSoftcap / kScale));
      if (kDiagonal) store(line, mask_below(key - v * kVectorLanes, load(line), kNothing));
      if constexpr (kBounded) {
        const int query = unit / kTileHeads * 32 + v * kVectorLanes;
        store(line, mask_from(tile.past[key] - query, load(line), 2 * kNothing));
      }
      highest[v] = larger(highest[v], load(line));
    }
  }
  alignas(64) float top[32];
  float* maximum = tile.maximum[unit];
  for (int v = 0; v < 2; ++v) store(top + v * kVectorLanes, highest[v] * kLogScale);
  int exceeds = 0;
  for (int q = 0; q < 32; ++q) exceeds |= top[q] > maximum[q] + kSlack;
  if (exceeds) raise(tile, unit, top);

  vector sum[2] = {};
  for (int key = 0; key < 32; ++key) {
    for (int v = 0; v < 2; ++v) {
      float* line = scores + key * 32 + v * kVectorLanes;
      const vector power = exp2(multiply_add(load(line), vector{} + kLogScale, -load(maximum + v * kVectorLanes)));
      sum[v] += power;
      store(line, power);
    }
  }
  for (int v = 0; v < 2; ++v) {
    float* denominator = tile.denominator[unit] + v * kVectorLanes;
    store(denominator, load(denominator) + sum[v]);
  }
  pair_rows<32>(scores, 32, 32, tile.weights[unit % 2]);
}

/// Adds the block's values, weighted by a unit's weights.
LLMC_TILE void add_values(Tiles& tiles, ForwardTile& tile, int unit) {
  for (int d = 0; d < kDim; d += 32)
    multiply_block<true>(tiles, {tile.values + d * 16, 16, 0}, {tile.weights[unit % 2], 32, 0}, 1,
                         tile.sums[unit] + d * 32, 32);
}

/// qkv [kBatch * kSequence, kPitch] with rows of q [kHeads, kHeadDim], k and v [kKvHeads, kHeadDim], already rotated;
/// out [kBatch * kSequence, kOutPitch] = softmax(q k^T / sqrt(kHeadDim)) v; lse [kBatch, kHeads, kSequence], natural.
LLMC_KERNEL attention_forward_tiles(const bf16* __restrict__ qkv, bf16* __restrict__ out,
                                    float* __restrict__ lse LLMC_FURTHER_OPERANDS) {
  constexpr int kHeadTiles = kHeads / kTileHeads;
  const Group<kLanes> lanes;
  Tiles tiles;
  ForwardTile tile;
  for (int task : lanes.rows(kBatch * kHeadTiles * kTiles)) {
    const int batch = task / (kHeadTiles * kTiles);
    const int head = task / kTiles % kHeadTiles * kTileHeads;
    // Late tiles see more keys. Short and long ones alternate, so that equal numbers of tasks are equal work.
    const int order = task % kTiles;
    const int first = (order % 2 ? kTiles - 1 - order / 2 : order / 2) * kTileQueries;
    const int blocks = (kSequence - first + 31) / 32 < kQueryBlocks ? (kSequence - first + 31) / 32 : kQueryBlocks;
    [[maybe_unused]] Mask mask = LLMC_MASK;
    const bf16* rows = qkv + static_cast<long long>(batch) * kSequence * kPitch;
    const bf16* keys = rows + (kHeads + head / kGroupHeads) * kHeadDim;
    const bf16* values = keys + kKvHeads * kHeadDim;

    for (int unit = 0; unit < blocks * kTileHeads; ++unit) {
      for (int v = 0; v < 2; ++v) {
        const int query = first + unit / kTileHeads * 32 + v * kVectorLanes;
        const bf16* from = rows + static_cast<long long>(query) * kPitch + (head + unit % kTileHeads) * kHeadDim;
        pack_columns<kHeadDim / 2>(words(from), kPitch / 2, kSequence - query, tile.queries[unit] + v * kVectorLanes,
                                   32);
      }
      for (int q = 0; q < 32; ++q) tile.maximum[unit][q] = kNothing;
      for (int q = 0; q < 32; ++q) tile.denominator[unit][q] = 0.0f;
      for (int i = 0; i < kDim * 32; ++i) tile.sums[unit][i] = 0.0f;
    }
    int key = 0;
    if constexpr (kBounded) key = mask.first_tile(first, 32);
    for (; key < first + blocks * 32; key += 32) {
      if constexpr (kBounded) pack_past<32>(mask, key, first, tile.past);
      const long long row = static_cast<long long>(key) * kPitch;
      pack_rows<32, kHeadDim / 2, kWords>(words(keys + row), kPitch / 2, kSequence - key, tile.keys);
      pack_pair_columns<kHeadDim, kDim>(values + row, kPitch, kSequence - key, tile.values);
      const int diagonal = (key - first) / 32;  // the query block of these keys
      const int begin = key > first ? diagonal * kTileHeads : 0, end = blocks * kTileHeads;
      // Tile registers and vectors are separate units of the core: the next unit's products overlap this one's vectors.
      multiply_keys(tiles, tile, begin);
      for (int unit = begin; unit < end; ++unit) {
        if (unit + 1 < end) multiply_keys(tiles, tile, unit + 1);
        if (key >= first && unit / kTileHeads == diagonal)
          softmax<true>(tile, unit);
        else
          softmax<false>(tile, unit);
        if (unit > begin) add_values(tiles, tile, unit - 1);
      }
      add_values(tiles, tile, end - 1);
    }
    for (int unit = 0; unit < blocks * kTileHeads; ++unit) {
      for (int v = 0; v < 2; ++v) {
        const int query = first + unit / kTileHeads * 32 + v * kVectorLanes;
        const int count = kSequence - query, h = head + unit % kTileHeads;
        bf16* to = out + (static_cast<long long>(batch) * kSequence + query) * kOutPitch + h * kHeadDim;
        const vector divisor = load(tile.denominator[unit] + v * kVectorLanes);
        unpack_columns<kHeadDim>(tile.sums[unit] + v * kVectorLanes, 32, 1.0f / divisor, to, kOutPitch, count);
      }
      const int query = first + unit / kTileHeads * 32, h = head + unit % kTileHeads;
      float* line = lse + (static_cast<long long>(batch) * kHeads + h) * kSequence + query;
      alignas(64) float sums[32];
      for (int q = 0; q < 32; ++q) sums[q] = fma(tile.maximum[unit][q], kLn2, log(tile.denominator[unit][q]));
      for (int q = 0; q < 32 && q < kSequence - query; ++q) line[q] = sums[q];
    }
  }
}

}  // namespace llmc
