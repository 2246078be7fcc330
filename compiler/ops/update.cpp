#include "compiler/ops/update.h"

#include "compiler/ops/instance.h"

namespace llmc::ops {

std::string UpdateAttributes::text() const {
  const std::string flags = flags_text({{"copies", copies}, {"norms", norms}});
  return groups == kAllGroups ? flags : fmt::format("{}{}groups={:#b}", flags, flags.empty() ? "" : " ", groups);
}

void update_signature(const Operands& o) {
  const auto& [copies, norms, groups] = o.op.as<UpdateAttributes>();
  for (const OptimizerRow& row : kOptimizers)
    if (std::string_view(row.name) == name_of(o.op.kind))
      return o.count(kUpdateState + row.state.size(), copies + (norms ? 2 : 0));
  throw Malformed("no optimizer has its name");
}

void sum_a_chunk(Graph& graph, const Op& op, const spec::Spec&, const FlatSizes& flat, const AttentionChoices&) {
  for (TensorId id : op.outputs)
    if (graph.at(id).role == Role::activation) graph.at(id).cols = graph.at(id).pitch = flat.chunk_count;
}

namespace {

/// A buffer of state as kernels take it, whose elements Chunk::state counts from the first bucket's share on: moved
/// back by what lies before the first bucket that it has.
Argument state_argument(const Context& c, TensorId id, BucketRange range) {
  if (range.first == 0) return id;
  const Tensor& t = c.graph.at(id);
  const std::string block = t.state_block == 1 ? "" : fmt::format(" / {}", t.state_block);
  return fmt::format("{} - s.shares.begin_of({}){}", t.name, range.first, block);
}

}  // namespace

std::vector<Work> update_work(const Context& c, double flops_per_element) {
  const Op& op = c.op;
  const auto& [copies, norms, groups] = op.as<UpdateAttributes>();
  const DType copy = copies ? c.out(0).dtype : c.spec.compute;
  const auto& in = op.inputs;
  const auto output = [&, first = std::size_t{copies}, norms = norms](std::size_t i) {
    return norms ? Argument(op.outputs[first + i]) : "nullptr";
  };
  const BucketRange range = c.flat.buckets_of(groups);
  std::int64_t count = 0;
  for (std::size_t bucket = range.first; bucket < range.past; ++bucket) count += c.flat.buckets[bucket].elements;
  // Gradients are read; masters, state and copies written, and all but the copies read before.
  const double elements = static_cast<double>(count);
  double bytes = (4 + 2 * 4) * elements + (copies ? static_cast<double>(bytes_of(copy, count)) : 0);
  std::vector<Argument> arguments = {in[kUpdateMasters], in[kUpdateGradients]};
  for (std::size_t i = kUpdateState; i < in.size(); ++i) {
    arguments.push_back(state_argument(c, in[i], range));
    bytes += 2 * static_cast<double>(bytes_of(c.in(i).dtype, in_blocks(count, c.in(i).state_block)));
  }
  for (Argument& argument :
       std::vector<Argument>{copies ? Argument(op.outputs[0]) : "nullptr", in[kUpdateChunks], "0", "kChunkCount",
                             in[kUpdateScalars], in[kUpdateGroups], in[kUpdateResults], output(0), output(1)})
    arguments.push_back(std::move(argument));
  return {Instance(c, name_of(op.kind))
              .element(copy)
              .flag("kCopy", copies, "copy", "precision.compute")
              .flag("kNorms", norms, "norms", "metrics.per_parameter")
              .share("kGradientShare", Use::gradients)
              .share("kWeightShare", Use::masters)
              .groups(groups)
              .costs(bytes, flops_per_element * elements)
              .stream(c.flat, std::move(arguments))};
}

}  // namespace llmc::ops
