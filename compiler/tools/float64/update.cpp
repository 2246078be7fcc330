#include "compiler/tools/float64/update.h"

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

void update(OpRun& run, void (*formula)(UpdateElement& element, const void* record)) {
  const auto* results = run.records_in<StepResults>(kUpdateResults);
  if (results->skipped) {
    for (OpValue& output : run.outputs) output.undefined = true;
    return;
  }
  const auto chunks = chunks_of(run, kUpdateChunks);
  const auto* groups = run.records_in<GroupScalars>(kUpdateGroups);
  const std::span<const std::byte> records = run.inputs[kUpdateScalars].records;
  const std::size_t record_bytes = records.size() / (run.inputs[kUpdateGroups].records.size() / sizeof(GroupScalars));
  const std::size_t states = run.inputs.size() - kUpdateState;
  OpValue& masters = run.inputs[kUpdateMasters];
  masters.scales(masters.matrix.cols);
  for (std::size_t s = 0; s < states; ++s) {
    OpValue& state = run.inputs[kUpdateState + s];
    state.scales(state.matrix.cols);
  }
  const auto& [copies, norms, updated] = run.op.as<UpdateAttributes>();
  const std::size_t partials = copies ? 1 : 0;
  std::vector<double*> state(states), scales(states);
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    if (!holds(updated, chunks[c].group)) continue;
    const GroupScalars& group = groups[chunks[c].group];
    double weights = 0, updates = 0;
    for (int e = 0; e < chunks[c].length; ++e) {
      const auto at = static_cast<std::size_t>(chunks[c].offset + e),
                 of_state = static_cast<std::size_t>(chunks[c].state - run.state_begin + e);
      for (std::size_t s = 0; s < states; ++s) {
        const std::size_t element =
            of_state / static_cast<std::size_t>(run.graph.at(run.op.inputs[kUpdateState + s]).state_block);
        state[s] = run.in(kUpdateState + s).data + element;
        scales[s] = &run.inputs[kUpdateState + s].scale[element];
      }
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
  if (norms) bound_sums(run, partials);
}

}  // namespace llmc::float64
