#include "compiler/tools/report/disk_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/snapshot.h"
#include "compiler/tools/report/plan_report.h"
#include "text/plural.h"

namespace llmc::report {

using plan::Plan;

namespace {

/// As the runtime knows them; their names live in the plan.
std::vector<ParameterInfo> parameters_of(const Plan& plan) {
  std::vector<ParameterInfo> parameters;
  for (const plan::Slice& s : plan.parameters.slices)
    parameters.push_back({s.name.c_str(), s.offset, s.rows, s.cols, s.pitch, s.matrix, s.group, 0, 0, 0, s.first_row});
  return parameters;
}

bool has_best(const Plan& plan) { return plan.spec.checkpoint.best != "none"; }

/// The last step of the phase, without phases of the run.
std::int64_t last_step(const Plan& plan) {
  return plan.spec.phase.count == 1 ? plan.spec.schedule.steps : plan.spec.phase.last;
}

/// First steps of trainers that take over at or before the end of the phase: their checkpoints stay.
std::vector<std::int64_t> borders(const Plan& plan) {
  const spec::Phase& phase = plan.spec.phase;
  std::vector<std::int64_t> list;
  for (std::size_t i = 0; i + 1 < phase.trainers.size(); ++i)
    if (phase.trainers[i] != phase.trainers[i + 1] && phase.borders[i] <= last_step(plan))
      list.push_back(phase.borders[i]);
  return list;
}

/// Returns the last step before this one after which the run may save; 0 if there is none. Each evaluation may be the
/// best.
std::int64_t save_before(const Plan& plan, const std::vector<std::int64_t>& borders, std::int64_t step) {
  const auto due = [&](std::int64_t every) { return every > 0 ? (step - 1) / every * every : 0; };
  std::int64_t last = std::max(due(plan.spec.checkpoint.every), has_best(plan) ? due(plan.spec.evaluation.every) : 0);
  for (const std::int64_t border : borders)
    if (border < step) last = std::max(last, border);
  return last;
}

/// Least common multiple; 0 if a number is 0, or if it is above `limit`.
std::int64_t common_multiple(std::int64_t a, std::int64_t b, std::int64_t limit) {
  if (a == 0 || b == 0) return 0;
  const std::int64_t times = a / std::gcd(a, b);
  return times > limit / b ? 0 : times * b;
}

/// Counts the steps up to `limit` at which the run may save by an interval, and which are multiples of `factor`. In
/// closed form, because a run may have 1e12 steps.
std::int64_t saves_by_interval(const Plan& plan, std::int64_t limit, std::int64_t factor) {
  const auto count = [limit](std::int64_t every) { return every > 0 ? limit / every : 0; };
  const std::int64_t saves = common_multiple(factor, plan.spec.checkpoint.every, limit),
                     best = has_best(plan) ? common_multiple(factor, plan.spec.evaluation.every, limit) : 0;
  return count(saves) + count(best) - count(common_multiple(saves, best, limit));
}

std::string snapshot_text(const Plan& plan) {
  if (const std::size_t bytes = snapshot_bytes(plan))
    return fmt::format("  written while training continues, from a snapshot of {} in the host's memory{}\n",
                       human_bytes(static_cast<double>(bytes)),
                       plan.spec.parallel.world_size > 1 ? " of each rank" : "");
  return plan.spec.checkpoint.asynchronous ? "  training waits for it: memory.budget has no room for a snapshot\n"
                                           : "  training waits for it\n";
}

}  // namespace

std::int64_t checkpoint_bytes(const Plan& plan) {
  std::int64_t bytes = 0;
  for (const ParameterInfo& p : parameters_of(plan))
    for (const SavedBuffer& buffer : saved_buffers(plan.layout.buffers)) {
      if (!buffer.covers(p)) continue;
      const ParameterInfo elements = parameter_in(buffer, p);
      bytes += bytes_of(buffer.dtype, elements.rows * elements.cols);
    }
  return bytes;
}

std::size_t most_checkpoints(const Plan& plan) {
  const spec::Checkpoint& policy = plan.spec.checkpoint;
  const std::vector<std::int64_t> kept = borders(plan);
  std::int64_t newest = 0, step = last_step(plan);
  for (; newest < policy.keep_last && save_before(plan, kept, step) > 0; ++newest) step = save_before(plan, kept, step);
  const std::int64_t limit = step - 1;  // of the older ones
  std::int64_t all = saves_by_interval(plan, limit, 1),
               older = policy.keep_every ? saves_by_interval(plan, limit, policy.keep_every) : 0;
  for (const std::int64_t border : kept) {
    if (border > limit) continue;
    const bool by_interval = saves_by_interval(plan, border, 1) > saves_by_interval(plan, border - 1, 1);
    if (!by_interval) ++all;
    if (!by_interval || policy.keep_every == 0 || border % policy.keep_every != 0) ++older;
  }
  const bool best = has_best(plan) && all > older;             // may be none of those that are kept anyway
  return static_cast<std::size_t>(newest + older + best + 1);  // and the one being written
}

std::size_t snapshot_bytes(const Plan& plan) {
  if (!plan.spec.checkpoint.asynchronous) return 0;
  const WorldRank rank{0, static_cast<int>(plan.spec.parallel.world_size)};
  const std::size_t bytes =
      Snapshot::most_bytes(parameters_of(plan), saved_buffers(plan.layout.buffers), rank, kShardBytes);
  const auto budget = static_cast<std::size_t>(plan.spec.memory.budget);
  return plan.spec.target.kind == spec::TargetKind::cuda || plan.needed_bytes() + bytes <= budget ? bytes : 0;
}

std::string disk_text(const Plan& plan) {
  const spec::Checkpoint& policy = plan.spec.checkpoint;
  std::vector<std::string> kept = {fmt::format("keep_last {}", policy.keep_last)};
  if (has_best(plan)) kept.emplace_back("the best");
  if (policy.keep_every) kept.push_back(fmt::format("each {} steps", policy.keep_every));
  if (!borders(plan).empty()) kept.emplace_back("those of borders");
  const std::size_t most = most_checkpoints(plan);
  const auto bytes = static_cast<double>(checkpoint_bytes(plan));
  return fmt::format("disk: {} a checkpoint; at most {} at a time take {}: {} and the one that is being written\n{}",
                     human_bytes(bytes), most, human_bytes(static_cast<double>(most) * bytes), fmt::join(kept, ", "),
                     snapshot_text(plan));
}

}  // namespace llmc::report
