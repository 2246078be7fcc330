#include "compiler/tools/report/product_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/plan/step_time.h"
#include "compiler/tools/report/plan_report.h"
#include "spec/targets.h"
#include "spec/values.h"
#include "text/plural.h"

namespace llmc::report {

using plan::Plan;

namespace {

/// Ops of the backward pass whose kernels compute codes again that a launch of its own transposes.
std::vector<std::string> without_tiles(const graph::Graph& graph) {
  std::vector<std::string> names;
  for (const graph::Region& region : graph.regions)
    for (const graph::Op& op : region.ops)
      for (const graph::Quantised& q : op.quantised)
        if (region.is_backward() && op.of != graph::kNone && q.alone && !q.folded && !q.transposed &&
            graph.at(op.outputs.at(static_cast<std::size_t>(q.output))).dtype == DType::e4m3 &&
            std::ranges::find(names, op.name) == names.end())
          names.push_back(op.name);
  return names;
}

/// Says how products of 8-bit operands are computed, and of which layers.
std::string fp8_text(const Plan& plan) {
  const spec::Fp8& fp8 = plan.spec.fp8;
  std::string text =
      fmt::format("matmul {}: {} products of layers on {} operands", spec::text_of("precision.matmul", plan.spec),
                  plan.spec.has_fp8_weight_gradients() ? "all" : "forward and data-gradient",
                  plan.spec.matmul == spec::Matmul::fp8_tensor ? "e4m3 and e5m2" : "e4m3");
  if (plan.spec.matmul == spec::Matmul::mxfp8) text += " with a scale for each 32 elements";
  if (fp8.head != spec::Fp8Head::off)
    text += fp8.head == spec::Fp8Head::forward ? ", and the logits" : ", the logits, and the gradient of their input";
  if (!spec::multiplies_codes(plan.spec))
    text += ", in bf16, since the target has no fp8 products: slower by the time of rounding";
  if (spec::is_planned_only(plan.spec)) text += ", which llmc does not compile until a device has run such products";
  const auto wide = [&](const char* which, std::int64_t layers) {
    if (layers) text += fmt::format("; {} {} layer{} in bf16", which, layers, plural(layers));
  };
  wide("first", fp8.first_layers), wide("last", fp8.last_layers);
  if (plan.choice.keep_rounded_weights)
    text += "; weights are rounded once a step";
  else if (plan.rank_micro_batches() > 1)
    text += "; weights are rounded in each micro-batch";
  if (const std::vector<std::string> names = without_tiles(plan.graph); !names.empty())
    text += fmt::format("; launches of their own transpose the codes of {}, whose blocks cannot collect rows of them",
                        fmt::join(names, ", "));
  return text + "\n";
}

std::string tf32_text(const Plan& plan) {
  const auto count = std::ranges::count_if(plan.products, [](const plan::Product& p) { return p.shape.tf32; });
  return fmt::format("matmul tf32: {} of {} products read 10 bits of the mantissas of fp32 operands\n", count,
                     plan.products.size());
}

std::string bf16x3_text(const Plan& plan) {
  std::set<std::size_t> optimizers;
  for (const plan::Launch& l : plan.launches)
    if (l.call == ops::Call::product && plan.graph.regions[l.region_index].is_optimizer()) optimizers.insert(l.product);
  std::vector<std::string> others, of_optimizer;
  for (std::size_t i = 0; i < plan.products.size(); ++i)
    if (optimizers.contains(i))
      of_optimizer.push_back(plan.products[i].name);
    else if (!plan.products[i].shape.bf16x3())
      others.push_back(plan.products[i].name);
  const std::size_t all = plan.products.size() - of_optimizer.size();
  std::string text = fmt::format("matmul bf16x3: {} of {} products in AMX tiles", all - others.size(), all);
  if (!others.empty())
    text += fmt::format("; in fp32 by oneDNN, because a side is not a multiple of 32: {}", fmt::join(others, ", "));
  if (!of_optimizer.empty())
    text += fmt::format("; the optimizer's always in fp32 by oneDNN: {}", fmt::join(of_optimizer, ", "));
  return text + "\n";
}

}  // namespace

const char* product_by(const Plan& plan, const plan::Product& product) {
  if (plan.spec.target.kind == spec::TargetKind::cuda) return "cuBLASLt";
  if (product.shape.bf16x3()) return "bf16x3 in tiles";
  return product.shape.tiles ? "tiles" : "oneDNN";
}

std::string matmul_text(const Plan& plan) {
  if (plan.spec.has_fp8_products()) return fp8_text(plan);
  if (plan.spec.matmul == spec::Matmul::tf32) return tf32_text(plan);
  return plan.spec.matmul == spec::Matmul::bf16x3 ? bf16x3_text(plan) : "";
}

std::string orthogonalising_text(const Plan& plan) {
  const std::optional<MatrixOwners> owners = plan::matrix_owners(plan);
  if (!owners) return "";
  const std::vector<std::int64_t> runs = plan::matrix_runs(plan, owners->busiest());
  const std::vector<double> of_region = plan::region_seconds(plan);
  const std::int64_t own = std::accumulate(runs.begin(), runs.end(), std::int64_t{0});
  const double seconds = std::inner_product(runs.begin(), runs.end(), of_region.begin(), 0.0);
  const std::int64_t all = plan.graph.layers() * std::ranges::count_if(plan.graph.regions, [](const graph::Region& r) {
                             return r.matrix != graph::kNoMatrix;
                           });
  struct Total {
    std::int64_t times = 0;
    double flops = 0, bytes = 0;
  };
  std::map<std::string, Total> totals;
  double flops = 0;
  for (const plan::Launch& l : plan.launches) {
    const std::int64_t times = runs[l.region_index];
    if (!times) continue;
    flops += static_cast<double>(times) * l.flops;
    if (l.call != ops::Call::product) continue;
    Total& total = totals[l.what];
    total.times += times;
    total.flops += static_cast<double>(times) * l.flops, total.bytes += static_cast<double>(times) * l.bytes;
  }
  const std::int64_t ranks = plan.spec.parallel.world_size;
  std::string text = fmt::format("muon orthogonalises {} matrices a step, {}{}FLOP and {:.1f} ms\n", all,
                                 ranks == 1 ? "" : fmt::format("the busiest of {} ranks {} of them: ", ranks, own),
                                 human_count(flops), 1e3 * seconds);
  text += fmt::format("  {:<38} {:>11} {:>12} {:>12}\n", "product", "times", "FLOP", "bytes");
  for (const auto& [name, total] : totals)
    text += fmt::format("  {:<38} {:>11} {:>12} {:>12}\n", name, fmt::format("{}/step", total.times),
                        human_count(total.flops), human_bytes(total.bytes));
  return text + "\n";
}

}  // namespace llmc::report
