// Declares the attributes of attention and of its backward op, and which kernels attention and the CPU's products have.
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
  int window = 0;  // keys that a query sees, itself the last; 0: all up to it

  constexpr Mask mask(std::int64_t sequence) const { return {static_cast<int>(sequence), window}; }
  std::string text() const;
};

/// Whether the CPU has AMX's tiles by its arch. "native" has none before a compilation makes it this machine's name.
bool has_tiles(const spec::Spec& spec);

/// Whether a product of these operands may run in tiles: where they are, bf16 always and fp32 by precision.matmul.
bool products_in_tiles(const spec::Spec& spec, DType operand);

/// Whether attention on the CPU runs in tiles: where they are, and in bf16.
bool attention_in_tiles(const spec::Spec& spec);

/// Whether llmc's own attention on CUDA is by products of warpgroups: heads of 64, compiled for sm_90a alone.
bool attention_in_warpgroups(const spec::Spec& spec, std::int64_t head_dim);

/// Multiplications and additions of one product of q's or out's shape with k's or v's, of the scores that the mask of
/// an attention leaves: causal half of the square.
double product_of_scores(const graph::Graph& graph, const graph::Op& attention);

}  // namespace llmc::ops
