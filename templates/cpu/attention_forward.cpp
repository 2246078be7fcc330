// Causal attention of packed q, k, v rows with grouped key and value heads, in blocks with an online softmax.
//
// Scores are computed transposed, S^T[key][query], with queries along the vector lanes: maxima and sums over keys are
// then element-wise, and each product is "one scalar times a vector". A tile holds the queries of several heads that
// share a key head, so that each key is fetched once for all of them.
#include "device/cpu/pack.h"
#include "device/group.h"
#include "device/math.h"
#include "params.h"

namespace llmc {

constexpr int kGroupHeads = kHeads / kKvHeads;
/// Heads and vectors of queries of one tile: the largest number of heads that divides the group and fits.
constexpr int kTileHeads = kTileVectors >= 4 && kGroupHeads % 4 == 0   ? 4
                           : kTileVectors >= 3 && kGroupHeads % 3 == 0 ? 3
                           : kGroupHeads % 2 == 0                      ? 2
                                                                       : 1;
constexpr int kQueryVectors = kTileVectors / kTileHeads;
constexpr int kTileQueries = kQueryVectors * kVectorLanes;
constexpr int kTile = kTileHeads * kTileQueries;  // lanes of a tile; vector v holds head v % kTileHeads
constexpr int kTiles = (kSequence + kTileQueries - 1) / kTileQueries;
constexpr int kKeys = 32;                                                          // keys of a block
constexpr int kDim = (kHeadDim + kVectorLanes - 1) / kVectorLanes * kVectorLanes;  // padded with zeros
constexpr int kDepth = kHeadDim / kPerWord<Act>;  // words of a head's row: bf16 elements are paired if possible
constexpr float kLogScale = kLog2e * kScale;      // scores are exponents of 2
constexpr float kNothing = -1e30f;                // the score of a key after the query

/// The state of one tile of queries between blocks of keys.
struct ForwardTile {
  alignas(64) float queries[kDim * kTile];   // [kDepth, kTile]
  alignas(64) float sums[kDim * kTile];      // [kDim, kTile], sum of exp(score - maximum) * value
  alignas(64) float scores[kKeys * kTile];   // [keys of the block, kTile]
  alignas(64) float weights[kKeys * kTile];  // scores as pairs of keys, unused in fp32
  alignas(64) float keys[kKeys * kDim];      // [keys of the block, kDim]
  alignas(64) float values[kKeys * kDim];    // [keys of the block, kDim], or half the rows with pairs of keys
  alignas(64) float maximum[kTile];          // of the scores so far, times kLogScale
  alignas(64) float denominator[kTile];
  // With kBounded only: the mask of the sequence; and of each key of the block the query, counted from the tile's
  // first, from which on none sees it.
  Mask mask;
  int past[kKeys];
};

/// Processes a block of kCount keys for the last kVectors vectors of the tile. kDiagonal: key i is masked for the lanes
/// below i of the first kTileHeads of those vectors.
template <int kVectors, int kCount, bool kDiagonal>
LLMC_BLOCK void forward_block(ForwardTile& tile) {
  constexpr int kFirst = kTile - kVectors * kVectorLanes;
  vector highest[kVectors];
  for (int v = 0; v < kVectors; ++v) highest[v] = kNothing - vector{};
  for (int key = 0; key < kCount; key += kTileRows) {
    vector score[kTileRows][kVectors] = {};
    multiply<kPairsOf<Act>>(tile.keys + key * kDim, kDim, 1, tile.queries + kFirst, kTile, kDepth, score);
    for (int i = 0; i < kTileRows; ++i) {
      for (int v = 0; v < kVectors; ++v) {
        if constexpr (kSoftcap > 0) score[i][v] = soft_cap(score[i][v], kSoftcap / kScale);
        if (kDiagonal && v < kTileHeads) score[i][v] = mask_below(key + i, score[i][v], kNothing);
        if constexpr (kBounded) {
          const int query = (kFirst / kVectorLanes + v) / kTileHeads * kVectorLanes;
          score[i][v] = mask_from(tile.past[key + i] - query, score[i][v], 2 * kNothing);
        }
        highest[v] = larger(highest[v], score[i][v]);
        store(tile.scores + (key + i) * kTile + kFirst + v * kVectorLanes, score[i][v]);
      }
    }
  }
  vector maximum[kVectors], shrink[kVectors], denominator[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    const int lane = kFirst + v * kVectorLanes;
    const vector before = load(tile.maximum + lane);
    maximum[v] = larger(before, highest[v] * kLogScale);
    shrink[v] = exp2(before - maximum[v]);
    denominator[v] = load(tile.denominator + lane) * shrink[v];
  }
  for (int key = 0; key < kCount; ++key) {
    for (int v = 0; v < kVectors; ++v) {
      float* score = tile.scores + key * kTile + kFirst + v * kVectorLanes;
      const vector power = exp2(multiply_add(load(score), vector{} + kLogScale, -maximum[v]));
      denominator[v] += power;
      store(score, power);
    }
  }
  for (int v = 0; v < kVectors; ++v) store(tile.maximum + kFirst + v * kVectorLanes, maximum[v]);
  for (int v = 0; v < kVectors; ++v) store(tile.denominator + kFirst + v * kVectorLanes, denominator[v]);
  const float* weights = tile.scores;
  if constexpr (kPairsOf<Act>) {
    pair_rows<kVectors * kVectorLanes>(tile.scores + kFirst, kCount, kTile, tile.weights + kFirst);
    weights = tile.weights;
  }
  for (int d = 0; d < kHeadDim; d += kTileRows) {
    vector sum[kTileRows][kVectors];
    for (int i = 0; i < kTileRows; ++i)
      for (int v = 0; v < kVectors; ++v)
        sum[i][v] = load(tile.sums + (d + i) * kTile + kFirst + v * kVectorLanes) * shrink[v];
    multiply<kPairsOf<Act>>(tile.values + d, 1, kDim, weights + kFirst, kTile, kCount / kPerWord<Act>, sum);
    for (int i = 0; i < kTileRows; ++i)
      for (int v = 0; v < kVectors; ++v) store(tile.sums + (d + i) * kTile + kFirst + v * kVectorLanes, sum[i][v]);
  }
}

/// Packs kCount keys and values, of which `count` exist.
template <int kCount>
LLMC_BLOCK void pack_keys(ForwardTile& tile, const Act* keys, const Act* values, int count) {
  pack_along<kCount, kHeadDim, kDim>(keys, kPitch, count, tile.keys);
  pack_across<kCount, kHeadDim, kDim>(values, kPitch, count, tile.values);
}

/// Processes the blocks on the diagonal: block j has the keys of query vector j, for that vector and later ones.
template <int kBlock>
LLMC_TILE void forward_diagonal(ForwardTile& tile, const Act* keys, const Act* values, int count) {
  if constexpr (kBlock < kQueryVectors) {
    constexpr int kFirstKey = kBlock * kVectorLanes;
    pack_keys<kVectorLanes>(tile, keys + kFirstKey * kPitch, values + kFirstKey * kPitch, count - kFirstKey);
    if constexpr (kBounded)
      pack_past<kVectorLanes>(tile.mask, kSequence - count + kFirstKey, kSequence - count, tile.past);
    forward_block<(kQueryVectors - kBlock) * kTileHeads, kVectorLanes, true>(tile);
    forward_diagonal<kBlock + 1>(tile, keys, values, count);
  }
}

/// qkv [kBatch * kSequence, kPitch] with rows of q [kHeads, kHeadDim], k and v [kKvHeads, kHeadDim], already rotated;
/// out [kBatch * kSequence, kOutPitch] = softmax(q k^T / sqrt(kHeadDim)) v; lse [kBatch, kHeads, kSequence], natural.
LLMC_KERNEL attention_forward(const Act* __restrict__ qkv, Act* __restrict__ out,
                              float* __restrict__ lse LLMC_FURTHER_OPERANDS) {
  constexpr int kHeadTiles = kHeads / kTileHeads;
  const Group<kLanes> lanes;
  ForwardTile tile;
  for (int task : lanes.rows(kBatch * kHeadTiles * kTiles)) {
    const int batch = task / (kHeadTiles * kTiles);
    const int head = task / kTiles % kHeadTiles * kTileHeads;
    // Late tiles see more keys. Short and long ones alternate, so that equal numbers of tasks are equal work.
    const int order = task % kTiles;
    const int first = (order % 2 ? kTiles - 1 - order / 2 : order / 2) * kTileQueries;
    if constexpr (kBounded) tile.mask = LLMC_MASK;
    const Act* rows = qkv + static_cast<long long>(batch) * kSequence * kPitch;
    const Act* keys = rows + (kHeads + head / kGroupHeads) * kHeadDim;
    const Act* values = keys + kKvHeads * kHeadDim;

    for (int v = 0; v < kTile / kVectorLanes; ++v) {
      const int query = first + v / kTileHeads * kVectorLanes;
      const Act* from = rows + static_cast<long long>(query) * kPitch + (head + v % kTileHeads) * kHeadDim;
      pack_transposed<kHeadDim>(from, kPitch, kSequence - query, tile.queries + v * kVectorLanes, kTile);
    }
    for (int q = 0; q < kTile; ++q) tile.maximum[q] = kNothing;
    for (int q = 0; q < kTile; ++q) tile.denominator[q] = 0.0f;
    for (int i = 0; i < kDim * kTile; ++i) tile.sums[i] = 0.0f;

    long long key = 0;
    if constexpr (kBounded) key = tile.mask.first_tile(first, kKeys);
    for (; key + kKeys <= first; key += kKeys) {
      if constexpr (kBounded) pack_past<kKeys>(tile.mask, key, first, tile.past);
      pack_keys<kKeys>(tile, keys + key * kPitch, values + key * kPitch, kKeys);
      forward_block<kTile / kVectorLanes, kKeys, false>(tile);
    }
    if constexpr (kTileQueries % kKeys != 0) {
      for (; key < first; key += kVectorLanes) {
        if constexpr (kBounded) pack_past<kVectorLanes>(tile.mask, key, first, tile.past);
        pack_keys<kVectorLanes>(tile, keys + key * kPitch, values + key * kPitch, kVectorLanes);
        forward_block<kTile / kVectorLanes, kVectorLanes, false>(tile);
      }
    }
    forward_diagonal<0>(tile, keys + static_cast<long long>(first) * kPitch,
                        values + static_cast<long long>(first) * kPitch, kSequence - first);

    alignas(64) float sums[kTile];  // log of each query's sum of exponentials
    for (int q = 0; q < kTile; ++q) sums[q] = fma(tile.maximum[q], kLn2, log(tile.denominator[q]));
    for (int v = 0; v < kTile / kVectorLanes; ++v) {
      const int query = first + v / kTileHeads * kVectorLanes;
      const int count = kSequence - query;
      Act* to =
          out + (static_cast<long long>(batch) * kSequence + query) * kOutPitch + (head + v % kTileHeads) * kHeadDim;
      const vector divisor = load(tile.denominator + v * kVectorLanes);
      unpack_columns<kHeadDim>(tile.sums + v * kVectorLanes, kTile, 1.0f / divisor, to, kOutPitch, count);
      float* line = lse + (static_cast<long long>(batch) * kHeads + head + v % kTileHeads) * kSequence + query;
      store_some(line, load(sums + v * kVectorLanes), count);
    }
  }
}

}  // namespace llmc
