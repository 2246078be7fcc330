#include "compiler/tools/float64/update.h"

#include <algorithm>
#include <cmath>

#include "compiler/ops/update.h"

namespace llmc::float64 {

using namespace ops;

namespace {

double square(double x) { return x * x; }

/// An update is the difference of two weights in fp32: if it is small relative to the weight, few digits are left.
void bound_sums(OpRun& run, std::size_t first) {
  for (std::size_t i = first; i < run.outputs.size(); ++i) {
    OpValue& partial = run.outputs[i];
    partial.relative = 256 * kFp32;
    for (const Chunk& chunk : chunks_of(run, kUpdateChunks))
      partial.flushed = std::max(partial.flushed, chunk.length * kFlushed);
    std::vector<double>& scale = partial.scales(partial.matrix.cols);
    for (std::size_t c = 0; c < scale.size(); ++c) {
      const double weight = run.out(first).data[c], update = run.out(first + 1).data[c];
      scale[c] = i == first ? weight : std::sqrt(weight * update) + kFp32 * weight;
    }
  }
}

}  // namespace

std::span<const Chunk> chunks_of(const OpRun& run, std::size_t input) {
  const std::span<std::byte> bytes = run.inputs.at(input).records;
  return {reinterpret_cast<const Chunk*>(bytes.data()), bytes.size() / sizeof(Chunk)};
}

bool update(OpRun& run, std::span<const StateNumbers> kept, UpdateFormula formula) {
  const auto* results = run.records_in<StepResults>(kUpdateResults);
  if (results->skipped) {
    for (OpValue& output : run.outputs) output.undefined = true;
    return false;
  }
  const auto chunks = chunks_of(run, kUpdateChunks);
  const auto* groups = run.records_in<GroupScalars>(kUpdateGroups);
  const std::span<const std::byte> records = run.inputs[kUpdateScalars].records;
  const std::size_t record_bytes = records.size() / (run.inputs[kUpdateGroups].records.size() / sizeof(GroupScalars));
  OpValue& masters = run.inputs[kUpdateMasters];
  masters.scales(masters.matrix.cols);
  const auto& [copies, norms, updated, split] = run.op.as<UpdateAttributes>();
  const std::size_t partials = std::size_t{copies} + std::size_t{split};
  std::vector<double*> state(kept.size()), scales(kept.size());
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (!holds(updated, chunks[c].group)) continue;
    const GroupScalars& group = groups[chunks[c].group];
    double weights = 0, updates = 0;
    for (int e = 0; e < chunks[c].length; ++e) {
      const auto at = static_cast<std::size_t>(chunks[c].offset + e),
                 of_state = static_cast<std::size_t>(chunks[c].state - run.state_begin + e);
      for (std::size_t s = 0; s < kept.size(); ++s)
        state[s] = kept[s].numbers + of_state, scales[s] = kept[s].scales + of_state;
      double& weight = masters.matrix.data[at];
      const double before = weight;
      UpdateElement element{static_cast<double>(group.lr),
                            static_cast<double>(group.weight_decay),
                            run.in(kUpdateGradients).data[at] * static_cast<double>(results->clip_scale),
                            results->updates,
                            weight,
                            state,
                            masters.scale[at],
                            scales};
      formula(element, &records[static_cast<std::size_t>(chunks[c].group) * record_bytes]);
      if (copies) run.out(0).data[at] = weight;
      weights += square(weight);
      updates += square(weight - before);
    }
    if (!norms) continue;
    run.out(partials).data[c] = weights;
    run.out(partials + 1).data[c] = updates;
  }
  if (copies) run.outputs[0].scale = masters.scale, run.outputs[0].parts = masters.parts;
  if (split) run.outputs[1].undefined = true;  // compared with the masters that it is a part of
  if (norms) bound_sums(run, partials);
  return true;
}

void update(OpRun& run, UpdateFormula formula) {
  std::vector<StateNumbers> state;
  for (std::size_t i = kUpdateState; i < run.inputs.size(); ++i) {
    OpValue& value = run.inputs[i];
    state.push_back({value.matrix.data, value.scales(value.matrix.cols).data()});
  }
  update(run, state, formula);
}

}  // namespace llmc::float64
