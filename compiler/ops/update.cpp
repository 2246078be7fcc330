#include "compiler/ops/update.h"

#include "compiler/ops/instance.h"

namespace llmc::ops {

std::string UpdateAttributes::text() const {
  const std::string flags = flags_text({{"copies", copies}, {"split", split}, {"norms", norms}});
  return groups == kAllGroups ? flags : fmt::format("{}{}groups={:#b}", flags, flags.empty() ? "" : " ", groups);
}

void update_signature(const Operands& o) {
  const auto& [copies, norms, groups, split] = o.op.as<UpdateAttributes>();
  o.expect(copies || !split, "split masters have copies");
  for (const OptimizerRow& row : kOptimizers)
    if (std::string_view(row.op) == name_of(o.op.kind))
      return o.count(kUpdateState + (row.orthogonalises ? 0 : row.state.size()),
                     static_cast<std::size_t>(copies + split + (norms ? 2 : 0)));
  throw Malformed("no optimizer has its name");
}

void sum_a_chunk(Graph& graph, const Op& op, const spec::Spec&, const FlatSizes& flat, const AttentionChoices&) {
  for (TensorId id : op.outputs)
    if (graph.at(id).role == Role::activation) graph.at(id).cols = graph.at(id).pitch = flat.chunk_count;
}

Argument state_argument(const Context& c, TensorId id) {
  const Tensor& t = c.graph.at(id);
  const BucketRange range = c.flat.buckets_of(t.groups);
  if (range.first == 0) return id;
  const std::string block = t.state_block == 1 ? "" : fmt::format(" / {}", t.state_block);
  return fmt::format("{} - s.shares.begin_of({}){}", t.name, range.first, block);
}

std::vector<Work> update_work(const Context& c, double flops_per_element, const char* split_template) {
  const Op& op = c.op;
  const auto& [copies, norms, groups, split] = op.as<UpdateAttributes>();
  const DType copy = copies ? c.out(0).dtype : c.spec.compute;
  const auto& in = op.inputs;
  const auto output = [&, first = std::size_t{copies} + std::size_t{split}, norms = norms](std::size_t i) {
    return norms ? Argument(op.outputs[first + i]) : "nullptr";
  };
  const std::int64_t count = c.flat.elements_of(groups);
  const auto of = [count](DType type) { return static_cast<double>(bytes_of(type, count)); };
  // Gradients are read; masters, state and copies written, and all but the copies read before. Of split masters copies
  // are read too.
  const double masters = split ? of(copy) + of(DType::rest) + of(DType::tie) : of(DType::f32);
  double bytes = of(DType::f32) + 2 * masters + (copies && !split ? of(copy) : 0);
  // A template with masters of both kinds takes all of their tensors.
  const std::string name = split ? split_template : name_of(op.kind);
  const bool both = name_of(op.kind) == std::string_view(split_template);
  std::vector<Argument> arguments;
  if (both)
    arguments = split ? std::vector<Argument>{"nullptr", in[kUpdateMasters], op.outputs[1]}
                      : std::vector<Argument>{in[kUpdateMasters], "nullptr", "nullptr"};
  else if (split)
    arguments = {op.outputs[0], in[kUpdateMasters], op.outputs[1]};
  else
    arguments = {in[kUpdateMasters]};
  arguments.emplace_back(in[kUpdateGradients]);
  bool in_blocks = false;
  for (std::size_t i = kUpdateState; i < in.size(); ++i) {
    arguments.push_back(state_argument(c, in[i]));
    bytes += 2 * static_cast<double>(bytes_of(c.in(i).dtype, llmc::in_blocks(count, c.in(i).state_block)));
    in_blocks |= c.in(i).state_block > 1;
  }
  if (both || !split) arguments.push_back(copies ? Argument(op.outputs[0]) : "nullptr");
  for (Argument& argument : std::vector<Argument>{in[kUpdateChunks], "0", "kChunkCount", in[kUpdateScalars],
                                                  in[kUpdateGroups], in[kUpdateResults], output(0), output(1)})
    arguments.push_back(std::move(argument));
  Instance instance(c, name);
  if (both || !split) instance.element(copy).flag("kCopy", copies, "copy", "precision.compute");
  if (both) instance.flag("kSplit", split, "split", "precision.master");
  return {instance.flag("kNorms", norms, "norms", "metrics.per_parameter")
              .share("kGradientShare", Use::gradients)
              .share("kWeightShare", Use::masters)
              .groups(groups)
              .costs(bytes, flops_per_element * static_cast<double>(count))
              .stream(c.flat, std::move(arguments), in_blocks)};
}

}  // namespace llmc::ops
