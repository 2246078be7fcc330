// Collectives: communication of a run's ranks in a step. With one rank none does anything.
#include "compiler/ops/collectives.h"

#include <fmt/format.h>

#include "device/types.h"

namespace llmc::ops {

std::string share_text(const Context& c, const Tensor& bucket) {
  const std::string unit = c.flat.share_unit == kShareUnit ? "" : fmt::format(", {}", c.flat.share_unit);
  return fmt::format("share_of({}, s.ranks.world_size(){})", bucket.elements(), unit);
}

std::string share_begin(const Context& c, const Tensor& bucket) {
  return fmt::format("s.shares.begin_of({}{})", c.flat.first_bucket.at(bucket.block),
                     bucket.block == Block::layer ? " + layer" : "");
}

namespace {

/// values -> the same
void in_place(const Operands& o) {
  o.count(1, 1);
  o.expect(o.op.inputs == o.op.outputs, "works in place");
}

/// values -> the same; or the wire, whose first elements are a bucket's, that bucket -> the wire
void reduce_signature(const Operands& o) {
  if (o.op.inputs.size() == 1) return in_place(o);
  o.count(2, 1);
  o.expect(o.in(0).role == Role::wire && o.in(1).role == Role::bucket && o.op.inputs[0] == o.op.outputs[0],
           "works in place");
}

/// a bucket -> the same; or the flat buffer with this rank's shard, elsewhere -> the bucket
void gather_signature(const Operands& o) {
  o.count(1, 1);
  o.expect(o.op.inputs == o.op.outputs || o.in(0).role == Role::flat, "gathers in place, or from shares");
}

double ranks(const Context& c) { return static_cast<double>(c.spec.parallel.world_size); }

/// Returns the bytes that every rank of a ring sends if each shard of `bytes` passes all ranks once.
double ring(const Context& c, double bytes) { return bytes * (ranks(c) - 1) / ranks(c); }

Work call(const Context& c, const char* function, std::vector<Argument> arguments, double wire) {
  Work work{.call = Call::collective, .arguments = std::move(arguments), .function = function, .wire = wire};
  work.taken = c.spec.parallel.world_size > 1;
  return work;
}

std::vector<Work> collective(const Context& c, const char* function, std::vector<Argument> arguments, double wire) {
  return {call(c, function, std::move(arguments), wire)};
}

/// Returns the reduced tensor: elements of the last input, sent in the dtype of the first.
const Tensor& reduced(const Context& c) { return c.in(c.op.inputs.size() - 1); }
double bytes_sent(const Context& c) { return static_cast<double>(bytes_of(c.in(0).dtype, reduced(c).elements())); }

std::vector<Work> all_reduce_work(const Context& c) {
  return collective(c, "all_reduce_sum", {c.op.inputs[0], std::to_string(reduced(c).elements())},
                    2 * ring(c, bytes_sent(c)));
}

std::vector<Work> reduce_scatter_work(const Context& c) {
  return collective(c, "reduce_scatter_sum", {c.op.inputs[0], share_text(c, reduced(c))}, ring(c, bytes_sent(c)));
}

std::vector<Work> all_gather_work(const Context& c) {
  const Tensor& bucket = c.out(0);
  const int bits = llmc::row_of(bucket.dtype).bits;
  const std::string elements = bits % 8 == 0 ? "" : fmt::format(" / {}", 8 / bits);  // of a byte
  std::vector<Argument> arguments;
  if (c.op.inputs != c.op.outputs) arguments.emplace_back(c.in(0).name + " + " + share_begin(c, bucket) + elements);
  arguments.emplace_back(c.op.outputs[0]);
  arguments.emplace_back(elements.empty() ? fmt::format("{} * {}", bits / 8, share_text(c, bucket))
                                          : share_text(c, bucket) + elements);
  return collective(c, "all_gather", std::move(arguments), ring(c, static_cast<double>(bucket.bytes())));
}

std::vector<Work> broadcast_work(const Context& c) {
  return collective(c, "broadcast", {c.op.inputs[0], std::to_string(c.in(0).bytes()), "0"},
                    static_cast<double>(c.in(0).bytes()));
}

/// results -> the same; or results, reports -> the same
void results_signature(const Operands& o) {
  const std::size_t count = o.op.inputs.size();
  o.count(count == 2 ? 2 : 1, count == 2 ? 2 : 1);
  o.expect(o.op.inputs == o.op.outputs, "works in place");
}

/// The first members of StepResults are sums, and so are all reports.
std::vector<Work> sum_results_work(const Context& c) {
  std::vector<Work> all = {call(c, "all_reduce_sum", {"&results->loss", std::to_string(kSummedResults)},
                                2 * ring(c, kSummedResults * sizeof(double))),
                           call(c, "all_reduce_max", {"&results->lse_max", "1"}, 2 * ring(c, sizeof(double)))};
  if (c.op.inputs.size() == 2)
    all.push_back(call(c, "all_reduce_sum", {c.op.inputs[1], std::to_string(c.graph.reports.size())},
                       2 * ring(c, static_cast<double>(c.in(1).bytes()))));
  return all;
}

}  // namespace

constexpr OpRow kAllReduce = RankRow{.signature = reduce_signature, .work = all_reduce_work};
constexpr OpRow kReduceScatter = RankRow{.signature = reduce_signature, .work = reduce_scatter_work};
constexpr OpRow kAllGather = RankRow{.signature = gather_signature, .gathers = true, .work = all_gather_work};
constexpr OpRow kBroadcast = RankRow{.signature = in_place, .work = broadcast_work};
constexpr OpRow kSumResults = RankRow{.signature = results_signature, .work = sum_results_work};

}  // namespace llmc::ops
