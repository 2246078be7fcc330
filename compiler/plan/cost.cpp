#include "compiler/plan/cost.h"

#include <fmt/format.h>

#include <set>

#include "compiler/plan/alignment.h"
#include "compiler/plan/schedule_walk.h"
#include "compiler/plan/step_time.h"
#include "error.h"

namespace llmc::plan {

using namespace graph;

namespace {

/// Returns the index of `item` in `list`, after adding it if it is new. Items of one name must be equal, because
/// emitted sources refer to them by name. Throws Failure(internal) if they are not.
template <class T>
std::size_t index_of(std::vector<T>& list, const T& item, const char* kind) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (list[i].name != item.name) continue;
    if (!list[i].is_same_as(item))
      throw Failure(Exit::internal,
                    fmt::format("two {}s named {}: {} and {}", kind, item.name, list[i].key(), item.key()));
    return i;
  }
  list.push_back(item);
  return list.size() - 1;
}

std::string what_runs(const Op& op, const ops::Work& work) {
  switch (work.call) {
    case ops::Call::own_backward:
    case ops::Call::rotate_back:
    case ops::Call::kernel: return work.kernel.name;
    case ops::Call::product: return work.product.name;
    case ops::Call::attention_forward: return "attention forward (cuDNN)";
    case ops::Call::attention_backward: return "attention backward (cuDNN)";
    case ops::Call::zero: return op.label();
    case ops::Call::collective: return name_of(op.kind);
  }
  return "";
}

}  // namespace

const char* Launch::kind() const {
  switch (call) {
    case ops::Call::own_backward:
    case ops::Call::rotate_back:
    case ops::Call::kernel: return "kernel";
    case ops::Call::product: return "gemm";
    case ops::Call::attention_forward:
    case ops::Call::attention_backward: return "attention";
    case ops::Call::zero: return "memset";
    case ops::Call::collective: return "collective";
  }
  return "";
}

const char* Launch::launched_as() const {
  switch (call) {
    case ops::Call::kernel: return "kernel";
    case ops::Call::product: return "product";
    case ops::Call::own_backward:
    case ops::Call::rotate_back:
    case ops::Call::attention_forward:
    case ops::Call::attention_backward: return "attention";
    case ops::Call::zero: return "memset";
    case ops::Call::collective: return "collective";
  }
  return "";
}

void list_work(Plan& plan) {
  const Graph& g = plan.graph;
  Cost& cost = plan.cost;

  // With sharded gradients, each micro-batch of several ranks has its own.
  const bool adds = plan.spec.parallel.world_size == 1 || !is_sharded(Use::gradients, plan.spec.parallel.shard);
  const std::int64_t wider = bytes_of(plan.spec.residual, 1) - bytes_of(plan.spec.compute, 1);
  const std::vector<Runs> runs = runs_of(plan.schedule, g.regions.size());
  const std::set<std::size_t> sent = sent_regions(plan.schedule);
  for (std::size_t r = 0; r < g.regions.size(); ++r) {
    const Region& region = g.regions[r];
    for (std::size_t o = 0; o < region.ops.size(); ++o) {
      const Op& op = region.ops[o];
      const ops::OpRow& row = ops::row_of(op.kind);
      const ops::Context context{
          {g, region, op}, plan.spec, plan.parameters, plan.attention, plan.rank_micro_batches()};
      if (region.is_forward() || region.is_loss()) {
        double& of = row.priced_as == ops::PricedAs::attention_forward ? cost.attention_flops_per_token
                                                                       : cost.linear_flops_per_token;
        const std::int64_t layers = region.block == Block::layer ? g.layers_of(region) : 1;
        of += 3 * row.model_flops(context) * static_cast<double>(layers);
      }
      for (ops::Work& work : row.work(context)) {
        Launch launch{.region_index = r,
                      .op_index = o,
                      .region = region.name,
                      .op = op.label(),
                      .what = what_runs(op, work),
                      .call = work.call,
                      .function = work.function,
                      .arguments = std::move(work.arguments),
                      .adds = work.adds,
                      .times = work.taken ? runs[r].times : 0,
                      // The first micro-batch zeroes the buffers that later ones add to.
                      .per_step = runs[r].per_step || op.once || (work.call == ops::Call::zero && adds),
                      .once = op.once,
                      .bytes = work.bytes,
                      .flops = work.flops,
                      .wire = work.wire,
                      .beside = sent.contains(r),
                      .stream_bytes = static_cast<double>(wider * row.stream_elements(context))};
        if (work.call == ops::Call::product) {
          launch.product = index_of(plan.products, work.product, "product");
          if (plan.spec.target.kind == spec::TargetKind::cuda)
            lower_alignment(plan, launch, plan.products[launch.product].shape);
        }
        if (work.call == ops::Call::kernel || is_in_attention(work.call))
          launch.kernel = index_of(plan.kernels, work.kernel, "kernel");
        plan.launches.push_back(std::move(launch));
      }
    }
  }

  if (const std::optional<MatrixOwners> owners = matrix_owners(plan)) {
    const std::vector<std::int64_t> own = matrix_runs(plan, owners->busiest());
    for (Launch& launch : plan.launches)
      if (g.regions[launch.region_index].matrix != kNoMatrix) launch.left = launch.times - own[launch.region_index];
  }
  cost.model_flops_per_token = cost.linear_flops_per_token + cost.attention_flops_per_token;
  for (const Launch& launch : plan.launches) {
    const std::int64_t n = plan.times_a_step(launch);
    cost.launches_per_step += n;
    cost.hardware_flops_per_step += launch.flops * static_cast<double>(n);
    cost.bytes_per_step += launch.bytes * static_cast<double>(n);
    cost.wire_bytes_per_step += launch.wire * static_cast<double>(n);
    cost.stream_bytes_per_step += launch.stream_bytes * static_cast<double>(n);
  }
}

}  // namespace llmc::plan
