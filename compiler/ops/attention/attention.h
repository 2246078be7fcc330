// Declares the attributes of attention and of its backward op, and selects the kernels of attention and of the CPU's
// products.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/ops/heads.h"
#include "device/mask.h"
#include "program/dtype.h"

namespace llmc::spec {
struct Spec;
}
namespace llmc::graph {
struct Graph;
struct Op;
}  // namespace llmc::graph

namespace llmc::ops {

struct AttentionAttributes {
  Heads heads = {};
  int window = 0;          // keys that a query sees, including itself; 0: all keys up to it
  double multiplier = 0;   // of the scores; 0: heads.dim^-0.5
  bool documents = false;  // a query sees the keys of its own document only: the op's last two inputs are the first and
                           // the last token of each token's
  double softcap = 0;      // of the scores with their factor; 0: none
  bool rotates = false;    // the backward op also rotates dq and dk back by RoPE's angles, of its fifth input
  bool resets = false;     // and positions begin anew in each document

  /// As one document: their borders are known only in the run.
  constexpr Mask mask(std::int64_t sequence) const { return {static_cast<int>(sequence), window}; }
  double scale() const;
  std::string text() const;
};

/// Whether the CPU's arch has AMX tiles. "native" has none until compilation replaces it by this machine's name.
bool has_tiles(const spec::Spec& spec);

/// Whether a product of these operands may run in AMX tiles: bf16 always, fp32 by precision.matmul.
bool products_in_tiles(const spec::Spec& spec, DType operand);

/// Whether attention on the CPU runs in AMX tiles: in bf16.
bool attention_in_tiles(const spec::Spec& spec);

/// Whether llmc's own attention on CUDA uses warpgroup products: compiled only for sm_90a, for heads of up to 128
/// columns where padding to a multiple of 64 costs less than these products gain.
bool attention_in_warpgroups(const spec::Spec& spec, std::int64_t head_dim);

/// How many blocks of a pass by warpgroups, of queries of different heads that read the same keys, are a cluster that
/// reads them once: 4, 2, or 1 if each copies for itself. Not of the pass that owns keys, whose blocks read no queries
/// of others.
std::int64_t blocks_that_share_keys(std::int64_t query_heads, std::int64_t key_heads, std::int64_t head_dim,
                                    bool forward);

/// Columns of a head as warpgroup products compute them.
constexpr std::int64_t warpgroup_columns(std::int64_t head_dim) { return (head_dim + 63) / 64 * 64; }

/// Returns the FLOPs of one product of queries and keys (or scores and values), without the scores that the mask
/// excludes: half of the square if causal.
double product_of_scores(const graph::Graph& graph, const graph::Op& attention);

}  // namespace llmc::ops
