// What the compiler knows of each kind of op: one row of a table, all of it in the op's own file.
#pragma once

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/ops/attention_choice.h"
#include "compiler/ops/work.h"
#include "spec/spec.h"

namespace llmc::ops {

using namespace graph;

/// What is wrong with an op's operands.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An op and the tensors that it works on.
struct Operands {
  const Graph& graph;
  const Region& region;
  const Op& op;

  const Tensor& in(std::size_t i) const { return graph.at(op.inputs.at(i)); }
  const Tensor& out(std::size_t i) const { return graph.at(op.outputs.at(i)); }
  std::int64_t rows(const Tensor& t) const { return graph.rows_seen(region, t); }

  /// For signatures: these throw Malformed.
  void count(std::size_t inputs, std::size_t outputs) const;
  void same_shape(const Tensor& a, const Tensor& b) const;
  template <class... T>
  static void expect(bool good, fmt::format_string<T...> what, T&&... values) {
    if (!good) throw Malformed(fmt::format(what, std::forward<T>(values)...));
  }
};

/// The flat buffers that hold all parameters, each of `elements`, cut into chunks for the optimizer.
struct FlatSizes {
  std::int64_t elements = 0;
  std::int64_t in_buckets = 0;  // of these: parameters, and the padding between them
  std::int64_t chunk_elements = 0, chunk_count = 0;
  std::int64_t tensors = 0;                          // of a checkpoint
  std::vector<Bucket> buckets;                       // by offset, one for each layer
  std::map<graph::Block, std::size_t> first_bucket;  // of a block: index into buckets; of layers: layer 0's
};

/// What decides how an op runs.
struct Context : Operands {
  const spec::Spec& spec;
  const FlatSizes& flat;
  const AttentionChoice& attention;
  std::int64_t micro_batches;  // of a step

  bool cuda() const { return spec.target.kind == spec::TargetKind::cuda; }
  /// Bytes of a tensor without its padding.
  static double bytes(const Tensor& t) { return static_cast<double>(bytes_of(t.dtype, t.rows * t.cols)); }
  /// How often a step runs the op.
  std::int64_t launches() const {
    return micro_batches * (region.loop == Loop::loss_chunks ? graph.tokens() / graph.chunk_rows : 1);
  }
  /// True in the emitted step where a launch adds to the gradients that an earlier one wrote.
  std::string adds() const {
    const std::string earlier = is_sharded(Use::gradients, spec.parallel.shard) ? "s.adds(first)" : "!first";
    return earlier + (region.loop == Loop::loss_chunks ? " || chunk > 0" : "");
  }
};

/// The scratch memory of an op, once parameters have their places.
using Scratch = void (*)(Graph& graph, const Op& op, const spec::Spec& spec, const FlatSizes& flat,
                         const AttentionChoice& attention);

class Backward;

/// A member that a row must state: without it the row does not compile.
template <class T>
struct Stated {
  T value;
  Stated() = delete;
  constexpr Stated(T v) : value(v) {}
  constexpr operator T() const { return value; }
};

/// A set of an op's outputs.
using Outputs = unsigned;
constexpr Outputs kNoOutputs = 0;
constexpr Outputs output(unsigned i) { return 1u << i; }

struct Row {
  Stated<OpKind> kind;
  /// Checks number, shapes and types of the operands, in the order that a comment beside it gives.
  Stated<void (*)(const Operands&)> signature;
  /// The type in which the op reads its input `i` where that is a parameter.
  Stated<DType (*)(const Operands&, std::size_t i)> weight_type;
  /// What stays fp32 whatever the compute type: statistics of rows, losses, workspaces.
  Stated<Outputs> exact;
  /// Whether its first output is the residual stream, which has a type of its own.
  Stated<bool> writes_stream;
  /// Emits the ops that compute the gradients of its inputs.
  Stated<void (*)(Backward&, const Op&)> gradient;
  /// Whether the kernel, a backward one, can write the forward op's first output again: it has the inputs at hand.
  Stated<bool> gives_forward;
  /// The output that is a sum over rows, which split_reductions cuts in two stages.
  Stated<int> row_sum;
  /// The input that the first output may lie over; kNone where it needs a place of its own.
  Stated<TensorId (*)(const Op&)> overwrites;
  Stated<Scratch> scratch;
  /// Elements of the residual stream that it reads and writes.
  Stated<std::int64_t (*)(const Operands&)> stream_elements;
  /// What runs it, in order.
  Stated<std::vector<Work> (*)(const Context&)> work;
};

// What rows say where there is nothing to say.
constexpr int kNoSum = -1;
DType reads_fp32(const Operands&, std::size_t);
void no_gradient(Backward&, const Op&);  // throws Failure(internal): the op stands in no forward pass
TensorId in_a_new_place(const Op&);
TensorId over_first_input(const Op& op);
void no_scratch(Graph&, const Op&, const spec::Spec&, const FlatSizes&, const AttentionChoice&);
std::int64_t off_the_stream(const Operands&);
std::vector<Work> fused_away(const Context&);  // throws Failure(internal): a pass should have taken the op out

const Row& row_of(OpKind kind);

/// Whether the op does nothing, or is not run, where there is one rank.
bool is_between_ranks(OpKind kind);

}  // namespace llmc::ops
