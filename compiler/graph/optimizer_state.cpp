#include "compiler/graph/optimizer_state.h"

#include <algorithm>
#include <vector>

#include "device/dynamic_map.h"

namespace llmc::graph {
namespace {

bool has_blocks(const Tensor& t, const ParameterPiece& piece, DType compute) {
  return piece.size * t.cols >= kLeastInt8Elements && t.cols % vector_of(compute) == 0 &&
         piece.begin * t.cols % kStateBlock == 0;
}

const char* name_in_fp32(ParameterRole role) {
  return role == ParameterRole::head ? "head, state in fp32" : "matrices, state in fp32";
}

}  // namespace

void choose_optimizers(Graph& graph, const spec::Spec& spec) {
  if (row_of(spec.optimizer.kind).orthogonalises)
    for (ParameterGroup& group : graph.groups) {
      if (group.role != ParameterRole::matrices)
        group.optimizer = OptimizerKind::adamw;
      else if (spec.optimizer.muon_neurons)
        group.optimizer = OptimizerKind::muon_neurons;
    }
  if (spec.optimizer_state == spec::OptimizerState::fp32) return;
  const auto groups = static_cast<int>(graph.groups.size());
  for (int group = 0; group < groups; ++group) {
    const ParameterRole role = graph.groups[static_cast<std::size_t>(group)].role;
    if (role != ParameterRole::matrices && role != ParameterRole::head) continue;
    std::vector<ParameterPiece*> in_blocks, others;
    for (Tensor& t : graph.tensors)
      for (ParameterPiece& piece : t.pieces)
        if (piece.group == group) (has_blocks(t, piece, spec.compute) ? in_blocks : others).push_back(&piece);
    if (in_blocks.empty()) continue;
    graph.groups[static_cast<std::size_t>(group)].optimizer = OptimizerKind::adamw_int8;
    if (others.empty()) continue;
    for (ParameterPiece* piece : others) piece->group = static_cast<int>(graph.groups.size());
    graph.groups.push_back({name_in_fp32(role), role, OptimizerKind::adamw});
  }
}

}  // namespace llmc::graph
