// clear_others: the matrices of a layer that other ranks orthogonalise become 0 on this one, so that a sum over ranks
// brings each from its owner, bit by bit.
#include <fmt/format.h>

#include "compiler/graph/orthogonal.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/muon/muon.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// gradients of a layer's parameters -> the same; with moments of rows as the last of them
void signature(const Operands& o) { o.expect(o.op.inputs == o.op.outputs, "works in place"); }

std::vector<Work> work(const Context& c) {
  std::vector<Work> all;
  const std::vector<OrthogonalMatrix> matrices = orthogonal_matrices(c.graph, c.spec.optimizer.kind);
  const Tensor& moments = c.in(c.op.inputs.size() - 1);
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const OrthogonalMatrix& matrix = matrices[i];
    const std::string& name = c.graph.at(matrix.gradient).name;
    const Argument begin =
        matrix.begin() == 0 ? Argument(matrix.gradient) : Argument(fmt::format("{} + {}", name, matrix.begin()));
    Work clear = Instance(c, "clear")
                     .flag("kAnyAddress", false, "", "model")
                     .costs(4.0 * static_cast<double>(matrix.elements()), 0)
                     .parts(c.flat, {begin, fmt::format("s.owns(layer, {}) ? 0 : {}", i, matrix.elements())});
    clear.taken = c.spec.parallel.world_size > 1;
    all.push_back(std::move(clear));
    if (moments.use != Use::row_state) continue;
    Work rows = Instance(c, "clear")
                    .flag("kAnyAddress", true, "rows", "model")
                    .costs(4.0 * static_cast<double>(matrix.rows), 0)
                    .parts(c.flat, {row_state(moments.name, matrix.rows_before, rows_of(matrices)),
                                    fmt::format("s.owns(layer, {}) ? 0 : {}", i, matrix.rows)});
    rows.taken = c.spec.parallel.world_size > 1;
    all.push_back(std::move(rows));
  }
  return all;
}

}  // namespace

constexpr OpRow kClearOthers = RankRow{.signature = signature, .work = work};

}  // namespace llmc::ops
