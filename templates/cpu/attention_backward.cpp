// Gradients of attention_forward. Recomputes probabilities block by block from the scores and their logsumexp.
//
// Scores and their gradients are transposed, [key][query], as in the forward pass: they feed dQ^T with queries along
// the lanes, and dV and dK as the scalars of "one scalar times a row". One task owns a key head, so dK and dV are
// summed in the same order for any number of threads.
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
constexpr int kKeys = 32;                         // keys of a block
constexpr int kDim = (kHeadDim + kVectorLanes - 1) / kVectorLanes * kVectorLanes;  // padded with zeros
constexpr int kDepth = kHeadDim / kPerWord<Act>;  // words of a head's row: bf16 elements are paired if possible
/// Rows of dK and dV in the workspace: whole tiles, so that no block needs a check.
constexpr int kPaddedSequence = (kSequence + 63) / 64 * 64;
constexpr int kPaddedDim = (kHeadDim + 31) / 32 * 32;
/// Products with head_dim along the lanes: vectors and rows of one product in registers.
constexpr int kDimVectors = kDim / kVectorLanes;
constexpr int kRowVectors = kTileVectors >= 4 && kDimVectors % 4 == 0   ? 4
                            : kTileVectors >= 3 && kDimVectors % 3 == 0 ? 3
                            : kDimVectors % 2 == 0                      ? 2
                                                                        : 1;
constexpr int kBlockRows = kRowVectors == 1 ? 8 : kRowVectors == 2 && kTileVectors >= 4 ? 8 : 4;
constexpr float kNever = 1e30f;  // the logsumexp of a query that does not exist

/// One tile of queries and its current block of keys. "along" operands hold words of neighbours in head_dim, "across"
/// operands words of neighbouring rows; in fp32 a word is one element.
struct BackwardTile {
  alignas(64) float queries[kDim * kTile];      // q^T [kDepth, kTile]
  alignas(64) float query_rows[kTile * kDim];   // q across [kTile, kDim]
  alignas(64) float outputs[kDim * kTile];      // dout^T [kDepth, kTile]
  alignas(64) float output_rows[kTile * kDim];  // dout across [kTile, kDim]
  alignas(64) float dqueries[kDim * kTile];     // dq^T [kDim, kTile], unscaled
  alignas(64) float lse[kTile];                 // of each query's scores, as a power of 2
  alignas(64) float delta[kTile];               // dout . out of each query
  alignas(64) float scores[kKeys * kTile];      // P^T, then dS^T
  alignas(64) float words[kKeys * kTile];       // the same in words; unused in fp32
  alignas(64) float keys[kKeys * kDim];         // k along [keys of the block, kDim]
  alignas(64) float key_rows[kKeys * kDim];     // k across; unused in fp32
  alignas(64) float values[kKeys * kDim];       // v along
  // With kBounded only: the mask of the sequence; and of each key of the block the query, counted from the tile's
  // first, from which on none sees it.
  Mask mask;
  int past[kKeys];
};

/// Computes to[kCount, kDim] += scores [kCount, lanes from kFirst on] times rows [lanes, kDim].
template <int kFirst, int kCount>
LLMC_BLOCK void add_rows(const float* scores, const float* rows, float* to) {
  constexpr int kWords = kPerWord<Act>;
  constexpr int kPitchWords = kTile / kWords;
  constexpr int kRows = kCount < kBlockRows ? kCount : kBlockRows;  // narrow vectors have fewer keys on the diagonal
  static_assert(kCount % kRows == 0);
  for (int d = 0; d < kDim; d += kRowVectors * kVectorLanes) {
    for (int key = 0; key < kCount; key += kRows) {
      vector sum[kRows][kRowVectors];
      for (int i = 0; i < kRows; ++i)
        for (int v = 0; v < kRowVectors; ++v) sum[i][v] = load(to + (key + i) * kPaddedDim + d + v * kVectorLanes);
      multiply<kPairsOf<Act>>(scores + key * kPitchWords + kFirst / kWords, kPitchWords, 1,
                              rows + kFirst / kWords * kDim + d, kDim, (kTile - kFirst) / kWords, sum);
      for (int i = 0; i < kRows; ++i)
        for (int v = 0; v < kRowVectors; ++v) store(to + (key + i) * kPaddedDim + d + v * kVectorLanes, sum[i][v]);
    }
  }
}

/// Processes a block of kCount keys for the last kVectors vectors of the tile, and adds to its dkeys and dvalues
/// [kCount, kPaddedDim]. kDiagonal: key i is masked for the lanes below i of the first kTileHeads of those vectors.
template <int kVectors, int kCount, bool kDiagonal>
LLMC_BLOCK void backward_block(BackwardTile& tile, float* dkeys, float* dvalues) {
  constexpr int kWidth = kVectors * kVectorLanes;
  constexpr int kFirst = kTile - kWidth;
  constexpr bool kPairs = kPairsOf<Act>;
  [[maybe_unused]] vector bends[kCount][kVectors];  // slopes of the soft cap
  for (int key = 0; key < kCount; key += kTileRows) {
    vector score[kTileRows][kVectors] = {};
    multiply<kPairs>(tile.keys + key * kDim, kDim, 1, tile.queries + kFirst, kTile, kDepth, score);
    for (int i = 0; i < kTileRows; ++i) {
      for (int v = 0; v < kVectors; ++v) {
        const int lane = kFirst + v * kVectorLanes;
        if constexpr (kSoftcap > 0) {
          score[i][v] = soft_cap(score[i][v], kSoftcap / kScale);
          bends[key + i][v] = soft_cap_slope(score[i][v], kSoftcap / kScale);
        }
        vector power = exp2(multiply_add(score[i][v], vector{} + kLog2e * kScale, -load(tile.lse + lane)));
        if (kDiagonal && v < kTileHeads) power = mask_below(key + i, power, 0.0f);
        if constexpr (kBounded)
          power = mask_from(tile.past[key + i] - lane / kVectorLanes / kTileHeads * kVectorLanes, power, 0.0f);
        store(tile.scores + (key + i) * kTile + lane, power);
      }
    }
  }
  if constexpr (kPairs) round_rows<kWidth>(tile.scores + kFirst, kCount, kTile, tile.words + kFirst / 2);
  add_rows<kFirst, kCount>(kPairs ? tile.words : tile.scores, tile.output_rows, dvalues);

  for (int key = 0; key < kCount; key += kTileRows) {
    vector slope[kTileRows][kVectors] = {};
    multiply<kPairs>(tile.values + key * kDim, kDim, 1, tile.outputs + kFirst, kTile, kDepth, slope);
    for (int i = 0; i < kTileRows; ++i) {
      for (int v = 0; v < kVectors; ++v) {
        const int lane = kFirst + v * kVectorLanes;
        float* score = tile.scores + (key + i) * kTile + lane;
        if constexpr (kSoftcap > 0) store(score, load(score) * bends[key + i][v]);
        store(score, load(score) * (slope[i][v] - load(tile.delta + lane)));
      }
    }
  }
  if constexpr (kPairs) round_rows<kWidth>(tile.scores + kFirst, kCount, kTile, tile.words + kFirst / 2);
  add_rows<kFirst, kCount>(kPairs ? tile.words : tile.scores, tile.query_rows, dkeys);
  if constexpr (kPairs) pair_rows<kWidth>(tile.scores + kFirst, kCount, kTile, tile.words + kFirst);

  const float* dscores = kPairs ? tile.words : tile.scores;
  const float* key_rows = kPairs ? tile.key_rows : tile.keys;
  for (int d = 0; d < kHeadDim; d += kTileRows) {
    vector sum[kTileRows][kVectors];
    float* to = tile.dqueries + d * kTile + kFirst;
    for (int i = 0; i < kTileRows; ++i)
      for (int v = 0; v < kVectors; ++v) sum[i][v] = load(to + i * kTile + v * kVectorLanes);
    multiply<kPairs>(key_rows + d, 1, kDim, dscores + kFirst, kTile, kCount / kPerWord<Act>, sum);
    for (int i = 0; i < kTileRows; ++i)
      for (int v = 0; v < kVectors; ++v) store(to + i * kTile + v * kVectorLanes, sum[i][v]);
  }
}

/// Packs kCount keys and values, of which `count` exist.
template <int kCount>
LLMC_BLOCK void pack_keys(BackwardTile& tile, const Act* keys, const Act* values, int count) {
  pack_along<kCount, kHeadDim, kDim>(keys, kPitch, count, tile.keys);
  if constexpr (kPairsOf<Act>) pack_across<kCount, kHeadDim, kDim>(keys, kPitch, count, tile.key_rows);
  pack_along<kCount, kHeadDim, kDim>(values, kPitch, count, tile.values);
}

/// Processes the blocks on the diagonal: block j has the keys of query vector j, for that vector and later ones.
template <int kBlock>
LLMC_TILE void backward_diagonal(BackwardTile& tile, const Act* keys, const Act* values, int count, float* dkeys,
                                 float* dvalues) {
  if constexpr (kBlock < kQueryVectors) {
    constexpr int kFirstKey = kBlock * kVectorLanes;
    pack_keys<kVectorLanes>(tile, keys + kFirstKey * kPitch, values + kFirstKey * kPitch, count - kFirstKey);
    if constexpr (kBounded)
      pack_past<kVectorLanes>(tile.mask, kSequence - count + kFirstKey, kSequence - count, tile.past);
    backward_block<(kQueryVectors - kBlock) * kTileHeads, kVectorLanes, true>(tile, dkeys + kFirstKey * kPaddedDim,
                                                                              dvalues + kFirstKey * kPaddedDim);
    backward_diagonal<kBlock + 1>(tile, keys, values, count, dkeys, dvalues);
  }
}

/// dout and out [kBatch * kSequence, kOutPitch]; qkv and dqkv [kBatch * kSequence, kPitch] as in attention_forward;
/// lse [kBatch, kHeads, kSequence]; workspace: dk and dv of every key head in fp32,
/// [2, kBatch, kKvHeads, kPaddedSequence, kPaddedDim]. Writes dq, dk and dv, not the padding of dqkv.
LLMC_KERNEL attention_backward(const Act* __restrict__ dout, const Act* __restrict__ out, const Act* __restrict__ qkv,
                               const float* __restrict__ lse, Act* __restrict__ dqkv,
                               float* __restrict__ workspace LLMC_FURTHER_OPERANDS) {
  const Group<kLanes> lanes;
  BackwardTile tile;
  for (int task : lanes.rows(kBatch * kKvHeads)) {
    const int batch = task / kKvHeads, kv_head = task % kKvHeads;
    if constexpr (kBounded) tile.mask = LLMC_MASK;
    const long long row0 = static_cast<long long>(batch) * kSequence;
    const int key_column = (kHeads + kv_head) * kHeadDim, value_column = key_column + kKvHeads * kHeadDim;
    const Act* keys = qkv + row0 * kPitch + key_column;
    const Act* values = qkv + row0 * kPitch + value_column;
    constexpr long long kGradient = static_cast<long long>(kPaddedSequence) * kPaddedDim;
    float* dkeys = workspace + task * kGradient;
    float* dvalues = dkeys + kBatch * kKvHeads * kGradient;
    for (int i = 0; i < kGradient; ++i) dkeys[i] = 0.0f;
    for (int i = 0; i < kGradient; ++i) dvalues[i] = 0.0f;

    for (int head = kv_head * kGroupHeads; head < (kv_head + 1) * kGroupHeads; head += kTileHeads) {
      for (int first = 0; first < kSequence; first += kTileQueries) {
        for (int v = 0; v < kTile / kVectorLanes; ++v) {
          const int query = first + v / kTileHeads * kVectorLanes, lane0 = v * kVectorLanes;
          const int count = kSequence - query, h = head + v % kTileHeads;
          const Act* q = qkv + (row0 + query) * kPitch + h * kHeadDim;
          const Act* d_out = dout + (row0 + query) * kOutPitch + h * kHeadDim;
          const Act* o = out + (row0 + query) * kOutPitch + h * kHeadDim;
          pack_transposed<kHeadDim>(q, kPitch, count, tile.queries + lane0, kTile);
          pack_transposed<kHeadDim>(d_out, kOutPitch, count, tile.outputs + lane0, kTile);
          pack_across<kVectorLanes, kHeadDim, kDim>(q, kPitch, count, tile.query_rows + lane0 / kPerWord<Act> * kDim);
          pack_across<kVectorLanes, kHeadDim, kDim>(d_out, kOutPitch, count,
                                                    tile.output_rows + lane0 / kPerWord<Act> * kDim);
          const float* line = lse + (static_cast<long long>(batch) * kHeads + h) * kSequence + query;
          // Queries past the end get no probability: their rows repeat the last one.
          for (int lane = 0; lane < kVectorLanes; ++lane)
            tile.lse[lane0 + lane] = kLog2e * (lane < count ? line[lane] : kNever);
          store(tile.delta + lane0, row_products<kHeadDim>(d_out, o, kOutPitch, count));
        }
        for (int i = 0; i < kDim * kTile; ++i) tile.dqueries[i] = 0.0f;
        // Prefetches inputs of the next tile, and the destination of this one's dq.
        const int next = first + kTileQueries, left = kSequence - next;
        const long long column = head * kHeadDim;
        prefetch_rows<kTileQueries, kTileHeads * kHeadDim>(qkv + (row0 + next) * kPitch + column, kPitch, left);
        prefetch_rows<kTileQueries, kTileHeads * kHeadDim>(dout + (row0 + next) * kOutPitch + column, kOutPitch, left);
        prefetch_rows<kTileQueries, kTileHeads * kHeadDim>(out + (row0 + next) * kOutPitch + column, kOutPitch, left);
        prefetch_rows<kTileQueries, kTileHeads * kHeadDim>(dqkv + (row0 + first) * kPitch + column, kPitch,
                                                           kSequence - first);

        long long key = 0;
        if constexpr (kBounded) key = tile.mask.first_tile(first, kKeys);
        for (; key + kKeys <= first; key += kKeys) {
          if constexpr (kBounded) pack_past<kKeys>(tile.mask, key, first, tile.past);
          pack_keys<kKeys>(tile, keys + key * kPitch, values + key * kPitch, kKeys);
          backward_block<kTile / kVectorLanes, kKeys, false>(tile, dkeys + key * kPaddedDim,
                                                             dvalues + key * kPaddedDim);
        }
        if constexpr (kTileQueries % kKeys != 0) {
          for (; key < first; key += kVectorLanes) {
            if constexpr (kBounded) pack_past<kVectorLanes>(tile.mask, key, first, tile.past);
            pack_keys<kVectorLanes>(tile, keys + key * kPitch, values + key * kPitch, kVectorLanes);
            backward_block<kTile / kVectorLanes, kVectorLanes, false>(tile, dkeys + key * kPaddedDim,
                                                                      dvalues + key * kPaddedDim);
          }
        }
        backward_diagonal<0>(tile, keys + static_cast<long long>(first) * kPitch,
                             values + static_cast<long long>(first) * kPitch, kSequence - first,
                             dkeys + first * kPaddedDim, dvalues + first * kPaddedDim);

        for (int v = 0; v < kTile / kVectorLanes; ++v) {
          const int query = first + v / kTileHeads * kVectorLanes;
          Act* to = dqkv + (row0 + query) * kPitch + (head + v % kTileHeads) * kHeadDim;
          unpack_columns<kHeadDim>(tile.dqueries + v * kVectorLanes, kTile, vector{} + kScale, to, kPitch,
                                   kSequence - query);
        }
      }
    }
    for (int t = 0; t < kSequence; ++t) {
      const Act* ahead = dqkv + (row0 + t + 16) * kPitch;
      prefetch_rows<1, kHeadDim>(ahead + key_column, kPitch, kSequence - t - 16);
      prefetch_rows<1, kHeadDim>(ahead + value_column, kPitch, kSequence - t - 16);
      for (int d = 0; d < kHeadDim; d += kVectorLanes) {
        Act* row = dqkv + (row0 + t) * kPitch + d;
        store_some(row + key_column, load(dkeys + t * kPaddedDim + d) * kScale, kHeadDim - d);
        store_some(row + value_column, load(dvalues + t * kPaddedDim + d), kHeadDim - d);
      }
    }
  }
}

}  // namespace llmc
