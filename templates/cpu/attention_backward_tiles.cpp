// attention_backward in AMX tiles: its five products in tile registers, probabilities and their gradients in vectors.
//
// Scores and their gradients are transposed, [key][query], as in attention_backward.cpp, which defines the result. Work
// is divided into units of 32 queries of one head and blocks of 32 keys, as in attention_forward_tiles.cpp.
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
constexpr int kDim = (kHeadDim + 31) / 32 * 32;  // padded with zeros
constexpr int kWords = kDim / 2;
constexpr int kPaddedSequence = (kSequence + 63) / 64 * 64;  // rows of dK and dV in the workspace
constexpr float kNever = 1e30f;  // the logsumexp of a query that does not exist: all its probabilities vanish

/// One tile of queries and its current block of keys.
struct BackwardTile {
  alignas(64) float queries[kUnits][kWords * 32];    // q^T [kWords, 32]
  alignas(64) float query_rows[kUnits][16 * kDim];   // q, pairs of queries [16, kDim]
  alignas(64) float outputs[kUnits][kWords * 32];    // dout^T [kWords, 32]
  alignas(64) float output_rows[kUnits][16 * kDim];  // dout, pairs of queries [16, kDim]
  alignas(64) float dqueries[kUnits][kDim * 32];     // dq^T [kDim, 32], unscaled
  alignas(64) float lse[kUnits][32];                 // of each query's scores, as a power of 2
  alignas(64) float delta[kUnits][32];               // dout . out of each query
  alignas(64) float probabilities[kUnits][32 * 16];  // P^T, words of two queries [32, 16]
  alignas(64) float dscores[kUnits][32 * 16];        // dS^T, words of two queries [32, 16]
  alignas(64) float scores[2][32 * 32];              // S^T, then P^T; unit u uses number u % 2
  alignas(64) float slopes[2][32 * 32];              // dP^T, then dS^T
  alignas(64) float words[2][16 * 32];               // dS^T, pairs of keys [16, 32]
  alignas(64) float keys[32 * kWords];
  alignas(64) float key_columns[kDim * 16];  // k^T, pairs of keys
  alignas(64) float values[32 * kWords];
  int past[32];  // with kBounded: queries from here on, relative to the tile's first, do not see key i of the block
};

/// Computes a unit's scores and slopes for the block of keys.
LLMC_TILE void multiply_keys(Tiles& tiles, BackwardTile& tile, int unit) {
  multiply_block<false>(tiles, {tile.keys, kWords, 16}, {tile.queries[unit], 32, 16 * 32}, kDim / 32,
                        tile.scores[unit % 2], 32);
  multiply_block<false>(tiles, {tile.values, kWords, 16}, {tile.outputs[unit], 32, 16 * 32}, kDim / 32,
                        tile.slopes[unit % 2], 32);
}

/// Converts them to probabilities and dS. kDiagonal: key i is masked for the queries before i.
template <bool kDiagonal>
LLMC_TILE void differentiate(BackwardTile& tile, int unit) {
  for (int key = 0; key < 32; ++key) {
    for (int v = 0; v < 32; v += kVectorLanes) {
      float* score = tile.scores[unit % 2] + key * 32 + v;
      float* slope = tile.slopes[unit % 2] + key * 32 + v;
      [[maybe_unused]] vector bend = {};  // slope of the soft cap
      if constexpr (kSoftcap > 0) {
        store(score, soft_cap(load(score), kSoftcap / kScale));
        bend = soft_cap_slope(load(score), kSoftcap / kScale);
      }
      vector probability = exp2(multiply_add(load(score), vector{} + kLog2e * kScale, -load(tile.lse[unit] + v)));
      if (kDiagonal) probability = mask_below(key - v, probability, 0.0f);
      if constexpr (kBounded) probability = mask_from(tile.past[key] - unit / kTileHeads * 32 - v, probability, 0.0f);
      store(score, probability);
      store(slope, probability * (load(slope) - load(tile.delta[unit] + v)));
      if constexpr (kSoftcap > 0) store(slope, load(slope) * bend);
    }
  }
  round_rows<32>(tile.scores[unit % 2], 32, 32, tile.probabilities[unit]);
  round_rows<32>(tile.slopes[unit % 2], 32, 32, tile.dscores[unit]);
  pair_rows<32>(tile.slopes[unit % 2], 32, 32, tile.words[unit % 2]);
}

/// Adds the block's part to a unit's dq.
LLMC_TILE void add_to_queries(Tiles& tiles, BackwardTile& tile, int unit) {
  for (int d = 0; d < kDim; d += 32)
    multiply_block<true>(tiles, {tile.key_columns + d * 16, 16, 0}, {tile.words[unit % 2], 32, 0}, 1,
                         tile.dqueries[unit] + d * 32, 32);
}

/// Adds the part of units `unit` to `end` to dk and dv [32, kDim] of the block of keys.
LLMC_TILE void add_to_keys(Tiles& tiles, const BackwardTile& tile, int unit, int end, float* dkeys, float* dvalues) {
  for (int d = 0; d < kDim; d += 32) {
    multiply_block<true>(tiles, {tile.probabilities[unit], 16, 32 * 16}, {tile.output_rows[unit] + d, kDim, 16 * kDim},
                         end - unit, dvalues + d, kDim);
    multiply_block<true>(tiles, {tile.dscores[unit], 16, 32 * 16}, {tile.query_rows[unit] + d, kDim, 16 * kDim},
                         end - unit, dkeys + d, kDim);
  }
}

/// dout and out [kBatch * kSequence, kOutPitch]; qkv and dqkv [kBatch * kSequence, kPitch] as in attention_forward;
/// lse [kBatch, kHeads, kSequence]; workspace: dk and dv of every key head in fp32,
/// [2, kBatch, kKvHeads, kPaddedSequence, kDim]. Writes dq, dk and dv, not the padding of dqkv.
LLMC_KERNEL attention_backward_tiles(const bf16* __restrict__ dout, const bf16* __restrict__ out,
                                     const bf16* __restrict__ qkv, const float* __restrict__ lse,
                                     bf16* __restrict__ dqkv, float* __restrict__ workspace LLMC_FURTHER_OPERANDS) {
  const Group<kLanes> lanes;
  Tiles tiles;
  BackwardTile tile;
  for (int task : lanes.rows(kBatch * kKvHeads)) {
    const int batch = task / kKvHeads, kv_head = task % kKvHeads;
    [[maybe_unused]] Mask mask = LLMC_MASK;
    const long long row0 = static_cast<long long>(batch) * kSequence;
    const int key_column = (kHeads + kv_head) * kHeadDim, value_column = key_column + kKvHeads * kHeadDim;
    const bf16* keys = qkv + row0 * kPitch + key_column;
    const bf16* values = qkv + row0 * kPitch + value_column;
    constexpr long long kGradient = static_cast<long long>(kPaddedSequence) * kDim;
    float* dkeys = workspace + task * kGradient;
    float* dvalues = dkeys + kBatch * kKvHeads * kGradient;
    for (int i = 0; i < kGradient; ++i) dkeys[i] = 0.0f;
    for (int i = 0; i < kGradient; ++i) dvalues[i] = 0.0f;

    for (int head = kv_head * kGroupHeads; head < (kv_head + 1) * kGroupHeads; head += kTileHeads) {
      for (int first = 0; first < kSequence; first += kTileQueries) {
        const int blocks = (kSequence - first + 31) / 32 < kQueryBlocks ? (kSequence - first + 31) / 32 : kQueryBlocks;
        for (int unit = 0; unit < blocks * kTileHeads; ++unit) {
          for (int v = 0; v < 2; ++v) {
            const int query = first + unit / kTileHeads * 32 + v * kVectorLanes, lane0 = v * kVectorLanes;
            const int count = kSequence - query, h = head + unit % kTileHeads;
            const bf16* q = qkv + (row0 + query) * kPitch + h * kHeadDim;
            const bf16* d_out = dout + (row0 + query) * kOutPitch + h * kHeadDim;
            const bf16* o = out + (row0 + query) * kOutPitch + h * kHeadDim;
            pack_columns<kHeadDim / 2>(words(q), kPitch / 2, count, tile.queries[unit] + lane0, 32);
            pack_columns<kHeadDim / 2>(words(d_out), kOutPitch / 2, count, tile.outputs[unit] + lane0, 32);
            pack_row_pairs<kVectorLanes, kHeadDim, kDim>(q, kPitch, count, tile.query_rows[unit] + lane0 / 2 * kDim);
            pack_row_pairs<kVectorLanes, kHeadDim, kDim>(d_out, kOutPitch, count,
                                                         tile.output_rows[unit] + lane0 / 2 * kDim);
            const float* line = lse + (static_cast<long long>(batch) * kHeads + h) * kSequence + query;
            for (int lane = 0; lane < kVectorLanes; ++lane)
              tile.lse[unit][lane0 + lane] = kLog2e * (lane < count ? line[lane] : kNever);
            store(tile.delta[unit] + lane0, row_products<kHeadDim>(d_out, o, kOutPitch, count));
          }
          for (int i = 0; i < kDim * 32; ++i) tile.dqueries[unit][i] = 0.0f;
        }
        for (int key = 0; key < first + blocks * 32; key += 32) {
          if constexpr (kBounded) {
            const int begin = mask.first_tile(first, 32);
            key = key < begin ? begin : key;
            pack_past<32>(mask, key, first, tile.past);
          }
          const long long row = static_cast<long long>(key) * kPitch;
          pack_rows<32, kHeadDim / 2, kWords>(words(keys + row), kPitch / 2, kSequence - key, tile.keys);
          pack_pair_columns<kHeadDim, kDim>(keys + row, kPitch, kSequence - key, tile.key_columns);
          pack_rows<32, kHeadDim / 2, kWords>(words(values + row), kPitch / 2, kSequence - key, tile.values);
          const int diagonal = (key - first) / 32;  // the query block of these keys
          const int begin = key > first ? diagonal * kTileHeads : 0, end = blocks * kTileHeads;
          // Tile registers and vectors are separate units of the core: the next unit's products overlap this one's
          // vectors.
          multiply_keys(tiles, tile, begin);
          for (int unit = begin; unit < end; ++unit) {
            if (unit + 1 < end) multiply_keys(tiles, tile, unit + 1);
            if (key >= first && unit / kTileHeads == diagonal)
              differentiate<true>(tile, unit);
            else
              differentiate<false>(tile, unit);
            if (unit > begin) add_to_queries(tiles, tile, unit - 1);
          }
          add_to_queries(tiles, tile, end - 1);
          const long long line = static_cast<long long>(key) * kDim;
          add_to_keys(tiles, tile, begin, end, dkeys + line, dvalues + line);
        }
        for (int unit = 0; unit < blocks * kTileHeads; ++unit) {
          for (int v = 0; v < 2; ++v) {
            const int query = first + unit / kTileHeads * 32 + v * kVectorLanes;
            bf16* to = dqkv + (row0 + query) * kPitch + (head + unit % kTileHeads) * kHeadDim;
            unpack_columns<kHeadDim>(tile.dqueries[unit] + v * kVectorLanes, 32, vector{} + kScale, to, kPitch,
                                     kSequence - query);
          }
        }
      }
    }
    for (int t = 0; t < kSequence; ++t) {
      for (int d = 0; d < kHeadDim; d += kVectorLanes) {
        bf16* row = dqkv + (row0 + t) * kPitch + d;
        store_some(row + key_column, load(dkeys + t * kDim + d) * kScale, kHeadDim - d);
        store_some(row + value_column, load(dvalues + t * kDim + d), kHeadDim - d);
      }
    }
  }
}

}  // namespace llmc
