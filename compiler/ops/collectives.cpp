// Collectives: what the ranks of a run tell each other in a step. Each works in place; with one rank none does
// anything.
#include <fmt/format.h>

#include "compiler/ops/op.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// values -> the same
void in_place(const Operands& o) {
  o.count(1, 1);
  o.expect(o.op.inputs == o.op.outputs, "works in place");
}

double ranks(const Context& c) { return static_cast<double>(c.spec.parallel.world_size); }

/// What every rank of a ring sends when each share of `bytes` passes all of them once.
double ring(const Context& c, double bytes) { return bytes * (ranks(c) - 1) / ranks(c); }

std::vector<Work> collective(const Context& c, const char* function, std::vector<Argument> arguments, double wire) {
  Work work{.call = Call::collective, .arguments = std::move(arguments), .function = function, .wire = wire};
  work.taken = c.spec.parallel.world_size > 1;
  return {std::move(work)};
}

double bytes_in(const Context& c) { return static_cast<double>(c.in(0).bytes()); }

std::string share_text(const Context& c) {
  return fmt::format("share_of({}, s.ranks.world_size())", c.in(0).elements());
}

std::vector<Work> all_reduce_work(const Context& c) {
  return collective(c, "all_reduce_sum", {c.op.inputs[0], std::to_string(c.in(0).elements())},
                    2 * ring(c, bytes_in(c)));
}

std::vector<Work> reduce_scatter_work(const Context& c) {
  return collective(c, "reduce_scatter_sum", {c.op.inputs[0], share_text(c)}, ring(c, bytes_in(c)));
}

std::vector<Work> all_gather_work(const Context& c) {
  return collective(c, "all_gather",
                    {c.op.inputs[0], fmt::format("{} * {}", bytes_of(c.in(0).dtype, 1), share_text(c))},
                    ring(c, bytes_in(c)));
}

std::vector<Work> broadcast_work(const Context& c) {
  return collective(c, "broadcast", {c.op.inputs[0], std::to_string(c.in(0).bytes()), "0"}, bytes_in(c));
}

/// StepResults begin with two numbers that are sums.
std::vector<Work> sum_results_work(const Context& c) {
  return collective(c, "all_reduce_sum", {"&results->loss", "2"}, 2 * ring(c, 2 * sizeof(double)));
}

constexpr Row row_of_collective(OpKind kind, std::vector<Work> (*work)(const Context&)) {
  return {.kind = kind,
          .signature = in_place,
          .weight_type = reads_fp32,
          .exact = kNoOutputs,
          .writes_stream = false,
          .gradient = no_gradient,
          .gives_forward = false,
          .row_sum = kNoSum,
          .overwrites = in_a_new_place,
          .scratch = no_scratch,
          .stream_elements = off_the_stream,
          .work = work};
}

}  // namespace

constexpr Row kAllReduce = row_of_collective(OpKind::all_reduce, all_reduce_work);
constexpr Row kReduceScatter = row_of_collective(OpKind::reduce_scatter, reduce_scatter_work);
constexpr Row kAllGather = row_of_collective(OpKind::all_gather, all_gather_work);
constexpr Row kBroadcast = row_of_collective(OpKind::broadcast, broadcast_work);
constexpr Row kSumResults = row_of_collective(OpKind::sum_results, sum_results_work);

}  // namespace llmc::ops
