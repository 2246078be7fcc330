// Ops that write all weights outside of an optimizer step: initialise sets them to random numbers, cast copies them in
// another dtype, split_masters and join_masters convert between fp32 and split masters.
#include "compiler/ops/instance.h"
#include "compiler/ops/rows.h"

namespace llmc::ops {
namespace {

/// init_rules, chunks -> masters
void initialise_signature(const Operands& o) { o.count(2, 1); }

/// masters, chunks -> copies
void cast_signature(const Operands& o) {
  o.count(2, 1);
  o.same_shape(o.in(0), o.out(0));
}

/// whole, chunks -> masters, copies, rest, ties
void split_signature(const Operands& o) { o.count(2, 4); }

/// masters, copies, rest, ties, chunks -> whole
void join_signature(const Operands& o) { o.count(5, 1); }

std::vector<Work> initialise_work(const Context& c) {
  const spec::Distribution distribution = c.op.as<InitialiseAttributes>().distribution;
  const bool uniform = distribution == spec::Distribution::uniform,
             truncated = distribution == spec::Distribution::truncated;
  return {Instance(c, "init_normal")
              .share("kWeightShare", c.out(0).use)
              .flag("kUniform", uniform, "uniform", "init.distribution")
              .said(uniform)
              .flag("kTruncated", truncated, "truncated", "init.distribution")
              .said(truncated)
              .costs(4.0 * static_cast<double>(c.flat.in_buckets), 0)
              .stream(c.flat, {c.op.outputs[0], c.op.inputs[0], c.op.inputs[1], "0", "kChunkCount", "seed"})};
}

std::vector<Work> cast_work(const Context& c) {
  const DType type = c.out(0).dtype;
  return {
      Instance(c, "cast_weights")
          .element(type)
          .share("kWeightShare", Use::masters)
          .costs(static_cast<double>(bytes_of(DType::f32, c.flat.in_buckets) + bytes_of(type, c.flat.in_buckets)), 0)
          .stream(c.flat, {c.op.inputs[0], c.op.outputs[0], c.op.inputs[1], "0", "kChunkCount"})};
}

/// The groups whose masters are split; the others' lie in a buffer of their own.
GroupSet split_groups(const Context& c, const Tensor& masters) {
  return ((GroupSet{1} << c.graph.groups.size()) - 1) & ~masters.groups;
}

/// Both directions read or write fp32 numbers and what they are split into.
Instance split_instance(const Context& c, const char* name, const Tensor& masters) {
  const auto bytes = [&](DType type) { return static_cast<double>(bytes_of(type, c.flat.in_buckets)); };
  return Instance(c, name)
      .share("kGradientShare", Use::gradients)
      .share("kWeightShare", Use::masters)
      .groups(split_groups(c, masters))
      .costs(bytes(DType::f32) + bytes(DType::bf16) + bytes(DType::rest) + bytes(DType::tie), 0);
}

std::vector<Work> split_work(const Context& c) {
  std::vector<Argument> arguments = {c.op.inputs[0]};
  arguments.insert(arguments.end(), c.op.outputs.begin(), c.op.outputs.end());
  for (const Argument& argument : {Argument(c.op.inputs[1]), Argument("0"), Argument("kChunkCount")})
    arguments.push_back(argument);
  return {split_instance(c, "split_masters", c.out(0)).stream(c.flat, std::move(arguments))};
}

std::vector<Work> join_work(const Context& c) {
  std::vector<Argument> arguments(c.op.inputs.begin(), c.op.inputs.end() - 1);
  for (const Argument& argument :
       {Argument(c.op.outputs[0]), Argument(c.op.inputs[4]), Argument("0"), Argument("kChunkCount")})
    arguments.push_back(argument);
  return {split_instance(c, "join_masters", c.in(0)).stream(c.flat, std::move(arguments))};
}

}  // namespace

std::string InitialiseAttributes::text() const {
  switch (distribution) {
    case spec::Distribution::normal: return "";
    case spec::Distribution::uniform: return "uniform";
    case spec::Distribution::truncated: return "truncated";
  }
  return "";
}

constexpr OpRow kInitialise = StepRow{.signature = initialise_signature, .work = initialise_work};

constexpr OpRow kCast = StepRow{.signature = cast_signature, .work = cast_work};

constexpr OpRow kSplitMasters = StepRow{.signature = split_signature, .work = split_work};

constexpr OpRow kJoinMasters = StepRow{.signature = join_signature, .work = join_work};

}  // namespace llmc::ops
