#include "compiler/tools/report/kernel_report.h"

#include <fmt/format.h>

#include "compiler/tools/report/plan_report.h"

namespace llmc::report {
namespace {

/// Returns the launches of an optimizer step; 0 for kernels of the start, of evaluation and of samples.
std::int64_t launches_per_step(const plan::Plan& plan, const plan::Kernel& kernel) {
  std::int64_t launches = 0;
  for (const plan::Launch& launch : plan.launches)
    if (launch.what == kernel.name) launches += plan.times_a_step(launch);
  return launches;
}

/// With the shared memory that a launch asks for.
std::vector<build::KernelUse> uses_of(const KernelUses& uses, const plan::Kernel& kernel) {
  const auto found = uses.find(kernel.name);
  if (found == uses.end()) return {};
  std::vector<build::KernelUse> result = found->second;
  for (build::KernelUse& use : result) use.shared += kernel.shared;
  return result;
}

std::string grid_text(const plan::Kernel& k) {
  return fmt::format("{} x {}{}", k.blocks, k.threads, k.cluster > 1 ? fmt::format(" by {}", k.cluster) : "");
}

}  // namespace

nlohmann::ordered_json kernels_json(const plan::Plan& plan, const KernelUses& uses) {
  using Json = nlohmann::ordered_json;
  const bool cuda = plan.spec.target.kind == spec::TargetKind::cuda;
  Json kernels = Json::array();
  for (const plan::Kernel& k : plan.kernels) {
    Json kernel = {{"name", k.name},
                   {"launches_per_step", launches_per_step(plan, k)},
                   {"bytes", k.rank_bytes()},
                   {"flops", k.rank_flops()}};
    if (cuda) kernel["grid"] = {{"blocks", k.blocks}, {"threads", k.threads}, {"cluster", k.cluster}};
    for (const build::KernelUse& use : uses_of(uses, k)) {
      const build::Occupancy fits = occupancy(use, k.threads);
      kernel["ptxas"].push_back({{"arch", use.arch},
                                 {"registers", use.registers},
                                 {"spill_store_bytes", use.spill_stores},
                                 {"spill_load_bytes", use.spill_loads},
                                 {"shared_bytes", use.shared},
                                 {"blocks_per_sm", fits.blocks},
                                 {"occupancy", fits.share}});
    }
    kernels.push_back(std::move(kernel));
  }
  return {{"name", plan.spec.name}, {"fingerprint", plan.fingerprint}, {"kernels", kernels}};
}

std::string kernels_text(const plan::Plan& plan, const KernelUses& uses) {
  const bool cuda = plan.spec.target.kind == spec::TargetKind::cuda;
  std::string out = fmt::format("{:<36} {:>8} {:>12} {:>10}", "kernel", "a step", "bytes", "FLOP");
  if (cuda)
    out += fmt::format("  {:<20} {:>6} {:>9} {:>7} {:>7} {:>10} {:>9}", "blocks x threads", "sm", "registers", "spills",
                       "shared", "blocks/SM", "occupancy");
  out += '\n';
  for (const plan::Kernel& k : plan.kernels) {
    const std::string line = fmt::format("{:<36} {:>8} {:>12} {:>10}", k.name, launches_per_step(plan, k),
                                         human_bytes(k.rank_bytes()), human_count(k.rank_flops()));
    if (!cuda) out += line + '\n';
    for (const build::KernelUse& use : uses_of(uses, k)) {
      const build::Occupancy fits = occupancy(use, k.threads);
      out += line + fmt::format("  {:<20} {:>6} {:>9} {:>7} {:>7} {:>10} {:>8.0f}%\n", grid_text(k), use.arch,
                                use.registers, use.spill_stores + use.spill_loads, use.shared, fits.blocks,
                                100 * fits.share);
    }
  }
  if (cuda)
    out +=
        "bytes, FLOP: of one launch; each tensor counts once. by: blocks in a cluster. spills: bytes in a thread.\n"
        "shared: bytes in a block. blocks/SM, occupancy: the most that registers, threads and shared memory allow.\n";
  return out;
}

}  // namespace llmc::report
