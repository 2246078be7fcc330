#include "compiler/tools/float64/report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace llmc::float64 {
namespace {

std::string text_of_fault(const Report& report, const Mismatch& mismatch) {
  const Worst& worst = mismatch.worst;
  const std::string element = fmt::format("%{}[{}, {}] is {:.8g}", report.reduced.graph.at(mismatch.tensor).name,
                                          worst.row, worst.column, worst.found);
  switch (mismatch.fault) {
    case Fault::host: return fmt::format("{}, where the host should have written {:.8g}", element, worst.exact);
    case Fault::overwritten:
      return fmt::format("{}, and was {:.8g} when an op last wrote it: another op has overwritten it", element,
                         worst.exact);
    case Fault::result: break;
  }
  return fmt::format("{}, in float64 {:.8g}: {:.3g} times its bound", element, worst.exact, worst.of_bound);
}

const char* name_of(Fault fault) {
  constexpr const char* kNames[] = {"result", "host", "overwritten"};
  return kNames[static_cast<std::size_t>(fault)];
}

}  // namespace

std::string as_text(const Report& report) {
  const Verdict& verdict = report.verdict;
  const spec::Spec& spec = report.reduced.spec;
  std::string text;
  if (!report.less.empty()) text += fmt::format("reduced to {}\n", fmt::join(report.less, ", "));
  text += fmt::format("the reduced run has {} of the {} kernels and products of the run", report.shared.same,
                      report.shared.all);
  text += report.shared.others.empty()
              ? "\n\n"
              : fmt::format("; it does not have {}\n\n", fmt::join(report.shared.others, ", "));
  text += fmt::format("{:<16} {:>9} {:>9}  {}\n", "tensors", "worst", "bound", "where");
  for (std::size_t i = 0; i < kTensorClasses; ++i) {
    const auto tensors = static_cast<TensorClass>(i);
    const ClassError& error = verdict.classes[i];
    const bool magnified = error.worst > bound_of(tensors, spec) && error.worst <= error.bound;
    text += fmt::format("{:<16} {:>9.1e} {:>9.0e}  {}{}{}\n", name_of(tensors), error.worst, error.bound, error.where,
                        magnified ? "   (the model magnifies rounding)" : "",
                        error.worst <= error.bound ? "" : "   MISMATCH");
  }
  text += fmt::format("{} ops one by one: the largest error is {:.2g} of its bound, {}\n\n", verdict.ops,
                      verdict.worst_of_bound, text_of(report.reduced, verdict.worst));
  if (verdict.good())
    return text + fmt::format("good: the trainer computes what the graph says ({:.1f} s)\n", report.seconds);
  if (!verdict.mismatch) return text + "mismatch: each op alone is within its bound, but the whole step is not\n";
  const Mismatch& mismatch = *verdict.mismatch;
  return text + fmt::format("mismatch: {}\n     {}\n     {} {}\n", text_of(report.reduced, mismatch.launch),
                            text_of_fault(report, mismatch), mismatch.fault == Fault::result ? "by" : "read by",
                            what_runs(report.reduced, mismatch.launch));
}

nlohmann::ordered_json as_json(const Report& report) {
  const Verdict& verdict = report.verdict;
  const spec::Spec& spec = report.reduced.spec;
  nlohmann::ordered_json json = {{"version", 1}, {"good", verdict.good()}, {"reduced", report.less}};
  json["kernels"] = {{"same", report.shared.same}, {"all", report.shared.all}, {"others", report.shared.others}};
  for (std::size_t i = 0; i < kTensorClasses; ++i) {
    const auto tensors = static_cast<TensorClass>(i);
    json["classes"].push_back({{"name", name_of(tensors)},
                               {"worst", verdict.classes[i].worst},
                               {"bound", verdict.classes[i].bound},
                               {"usual_bound", bound_of(tensors, spec)},
                               {"where", verdict.classes[i].where}});
  }
  json["ops"] = {{"compared", verdict.ops},
                 {"worst_of_bound", verdict.worst_of_bound},
                 {"where", text_of(report.reduced, verdict.worst)}};
  json["off"] = nullptr;
  if (verdict.mismatch) {
    const Mismatch& mismatch = *verdict.mismatch;
    const graph::Region& region = report.reduced.graph.regions[mismatch.launch.region];
    json["off"] = {{"op", region.ops[mismatch.launch.op].label()},
                   {"region", region.name},
                   {"step", mismatch.launch.step},
                   {"micro_batch", mismatch.launch.micro},
                   {"layer", mismatch.launch.layer},
                   {"chunk", mismatch.launch.chunk},
                   {"fault", name_of(mismatch.fault)},
                   {"result", report.reduced.graph.at(mismatch.tensor).name},
                   {"row", mismatch.worst.row},
                   {"column", mismatch.worst.column},
                   {"found", mismatch.worst.found},
                   {"exact", mismatch.worst.exact},
                   {"of_bound", mismatch.worst.of_bound},
                   {"by", what_runs(report.reduced, mismatch.launch)}};
  }
  json["seconds"] = report.seconds;
  return json;
}

}  // namespace llmc::float64
