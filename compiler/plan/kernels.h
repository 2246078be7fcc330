// Chooses the template instance, or the matrix product, that runs an op.
#pragma once

#include <optional>
#include <vector>

#include "compiler/plan/plan.h"

namespace llmc::plan {

/// The instances of templates that run `op`, in this order, with their launch shapes, bytes and FLOPs; empty for ops that a
/// library runs.
std::vector<Kernel> kernels_for(const graph::Graph& graph, const graph::Region& region, const graph::Op& op,
                                const ParameterLayout& parameters, const spec::Spec& spec);

/// Whether attention on the CPU runs in AMX's tiles: bf16, and an arch that has them. "native" has none before a compilation
/// makes it this machine's name.
bool attention_in_tiles(const spec::Spec& spec);

/// The matrix product that runs a linear op (forward, dgrad or wgrad); empty for other ops.
std::optional<Product> product_for(const graph::Graph& graph, const graph::Region& region, const graph::Op& op);

/// Rows that an op of `region` sees of a tensor: a loss chunk sees `chunk_rows` of a tensor with one row a token.
std::int64_t rows_seen(const graph::Graph& graph, const graph::Region& region, const graph::Tensor& tensor);

}  // namespace llmc::plan
