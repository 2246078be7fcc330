#include "compiler/tools/float64/exact.h"

#include <algorithm>

#include "compiler/tools/float64/interpreter.h"

namespace llmc::float64 {

using namespace graph;

Owned& Exact::own(std::pair<TensorId, std::int64_t> key, const Extent& extent) {
  return own_.try_emplace(key, extent).first->second;
}

std::vector<double>& Exact::flat(TensorId id) {
  return own({id, 0}, extent_of(plan_, plan_.graph.regions.front(), id)).elements;
}

std::vector<double> Exact::masters() {
  const std::vector<double>& own = flat(plan_.graph.host(Use::masters));
  if (plan_.spec.master == spec::Masters::fp32) return own;
  std::vector<double> all = flat(plan_.graph.host(Use::rest));  // stands for those that are split: Verifier::fetch
  for (const plan::Slice& slice : plan_.parameters.slices)
    if (!slice.matrix) std::copy_n(own.begin() + slice.offset, slice.cols, all.begin() + slice.offset);
  return all;
}

OpValue Exact::value(const ScheduledOp& launch, TensorId id, const OpValue& trainers) {
  const Graph& g = plan_.graph;
  const Region& region = g.regions[launch.region];
  const Tensor& t = g.at(id);
  const Extent extent = extent_of(plan_, region, id);
  if (t.role == Role::input || t.role == Role::constant) {
    OpValue value;
    value.matrix = trainers.matrix;
    value.records = trainers.records;
    return value;
  }
  const Place place = place_of(plan_, launch, id);
  if (t.role == Role::parameter || t.role == Role::copy || t.role == Role::gradient) {
    OpValue value;
    value.matrix = {flat(place.buffer).data() + place.column, extent.rows, extent.cols, extent.pitch};
    return value;
  }
  // It starts like the trainer's.
  if (t.use == Use::loss_scale && !own_.contains({id, 0}))
    own({id, 0}, extent).records.assign(trainers.records.begin(), trainers.records.end());
  if (t.role == Role::flat || extent.records) return own({id, 0}, extent).value(extent);
  const Extent whole{t.rows, t.cols, t.cols, t.dtype};
  OpValue value = own({place.buffer, place.copy}, whole).value(whole);
  value.matrix.data += place.row * whole.cols + place.column;
  value.matrix.rows = extent.rows;
  value.matrix.cols = extent.cols;
  return value;
}

OpRun Exact::run(const ScheduledOp& launch, const OpRun& trainer, std::uint64_t seed) {
  const Region& region = plan_.graph.regions[launch.region];
  OpRun run{plan_.graph, region, region.ops[launch.op], {}, {}, !launch.first, seed};
  run.left_out = trainer.left_out, run.cut = trainer.cut;  // part of the bounds
  run.state_begin = trainer.state_begin;
  run.layer = launch.layer;
  for (std::size_t i = 0; i < run.op.inputs.size(); ++i)
    run.inputs.push_back(value(launch, run.op.inputs[i], trainer.inputs[i]));
  for (std::size_t i = 0; i < run.op.outputs.size(); ++i)
    run.outputs.push_back(value(launch, run.op.outputs[i], trainer.outputs[i]));
  interpret(run);
  return run;
}

}  // namespace llmc::float64
