#include "compiler/tools/float64/dump.h"

#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "compiler/ops/op.h"
#include "device/types.h"
#include "program/outputs.h"

namespace llmc::float64 {

using namespace graph;

std::filesystem::path DumpWriter::step(const ScheduledOp& launch) const {
  const std::filesystem::path folder = folder_ / ("step-" + std::to_string(launch.step));
  make_directories(folder);
  return folder;
}

void DumpWriter::gradients(const ScheduledOp& launch, Exact& exact) {
  if (folder_.empty()) return;
  const std::filesystem::path folder = step(launch);
  parameters(folder / "weights.safetensors", exact.masters());
  parameters(folder / "gradients.safetensors", exact.flat(plan_.graph.host(Use::gradients)));
  tokens(folder / "tokens.safetensors");
}

void DumpWriter::host(const ScheduledOp& launch, const OpRun& trainer) {
  if (folder_.empty() || launch.step == 0) return;
  const auto append = [](std::vector<std::int32_t>& to, const Matrix& values) {
    for (std::int64_t i = 0; i < values.cols; ++i) to.push_back(static_cast<std::int32_t>(values.data[i]));
  };
  for (std::size_t i = 0; i < trainer.op.inputs.size(); ++i) {
    const Use use = plan_.graph.at(trainer.op.inputs[i]).use;
    if (use == Use::tokens) append(inputs_, trainer.in(i));
    if (use == Use::targets) append(targets_, trainer.in(i));
  }
}

void DumpWriter::updated(const ScheduledOp& launch, Exact& exact) {
  if (folder_.empty()) return;
  const std::filesystem::path folder = step(launch);
  parameters(folder / "updated.safetensors", exact.masters());
  StepResults r;
  std::memcpy(&r, exact.records(plan_.graph.host(Use::results)).data(), sizeof r);
  nlohmann::ordered_json summary = {{"loss", r.loss}, {"grad_norm", static_cast<double>(r.grad_norm)}};
  std::vector<const char*> names;
  for (const std::string& name : plan_.graph.reports) names.push_back(name.c_str());
  std::vector<double> reports(names.size());
  if (!names.empty())
    std::memcpy(reports.data(), exact.records(plan_.graph.host(Use::reports)).data(), reports.size() * sizeof(double));
  for (const Figure& figure : figures_of(r, names, reports)) summary[figure.name] = figure.value;
  write_small_file(folder, "summary.json", summary.dump() + "\n");
}

void DumpWriter::parameters(const std::filesystem::path& file, const std::vector<double>& flat) const {
  std::map<std::string, const plan::Slice*> slices;
  std::set<std::int64_t> offsets;  // of tied weights, only the first name is written
  std::vector<safetensors::TensorSpec> specs;
  for (const plan::Slice& slice : plan_.parameters.slices) {
    if (!offsets.insert(slice.offset).second) continue;
    slices[slice.name] = &slice;
    const std::vector<std::int64_t> shape =
        slice.matrix ? std::vector<std::int64_t>{slice.rows, slice.cols} : std::vector<std::int64_t>{slice.cols};
    specs.push_back({slice.name, safetensors::Dtype::kF64, shape});
  }
  safetensors::Writer writer(file, specs);
  for (const safetensors::Entry& entry : writer.entries()) {
    const plan::Slice& slice = *slices.at(entry.name);
    for (std::int64_t i = 0; i < slice.rows; ++i)
      writer.append(flat.data() + slice.offset + i * slice.pitch,
                    static_cast<std::size_t>(slice.cols) * sizeof(double));
  }
  writer.finish();
}

void DumpWriter::tokens(const std::filesystem::path& file) {
  const std::int64_t tokens = plan_.graph.tokens();
  const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(inputs_.size()) / tokens, plan_.graph.batch,
                                           plan_.graph.sequence};
  const safetensors::TensorSpec specs[] = {{"inputs", safetensors::Dtype::kI32, shape},
                                           {"targets", safetensors::Dtype::kI32, shape}};
  safetensors::Writer writer(file, specs);
  for (const safetensors::Entry& entry : writer.entries())
    writer.append((entry.name == "inputs" ? inputs_ : targets_).data(), entry.bytes());
  writer.finish();
  inputs_.clear();
  targets_.clear();
}

}  // namespace llmc::float64
