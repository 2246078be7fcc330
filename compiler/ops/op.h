// Defines the properties of each kind of op: one row of a table, stated in the op's own file.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "compiler/graph/graph.h"
#include "compiler/ops/attention/choice.h"
#include "compiler/ops/work.h"
#include "spec/spec.h"

namespace llmc::ops {

using namespace graph;

/// Thrown for wrong operands of an op.
struct Malformed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// An op and its tensors.
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

/// The flat buffers of all parameters, each of `elements`, divided into chunks for the optimizer.
struct FlatSizes {
  std::int64_t elements = 0;
  std::int64_t in_buckets = 0;  // of these: parameters, and the padding between them
  std::int64_t chunk_elements = 0, chunk_count = 0;
  std::int64_t tensors = 0;                          // of a checkpoint
  std::vector<Bucket> buckets;                       // by offset, one for each layer
  std::map<graph::Block, std::size_t> first_bucket;  // of a block: index into buckets; of layers: layer 0's
  std::int64_t share_unit = kShareUnit;              // of ranks' shares (program/shards.h)
  std::vector<BucketRange> group_buckets;            // by group: from the first to the last that has its parameters
  std::vector<std::int64_t> group_elements;          // by group: of its parameters, the padding of rows included

  /// From the first to the last bucket that has parameters of these groups.
  BucketRange buckets_of(GroupSet groups) const;
  /// Elements of the parameters of these groups. Of all groups: and the padding between parameters.
  std::int64_t elements_of(GroupSet groups) const;
};

/// Inputs of the decision how an op runs.
struct Context : Operands {
  const spec::Spec& spec;
  const FlatSizes& flat;
  const AttentionChoices& attention;
  std::int64_t micro_batches;  // of a step

  bool cuda() const { return spec.target.kind == spec::TargetKind::cuda; }
  /// Bytes of a tensor without its padding.
  static double bytes(const Tensor& t) { return static_cast<double>(bytes_of(t.dtype, t.rows * t.cols)); }
  /// Runs of the op in a step.
  std::int64_t launches() const {
    return micro_batches * (region.loop == Loop::loss_chunks ? graph.tokens() / graph.chunk_rows : 1);
  }
  /// Expression in the emitted step that is true if a launch adds to the gradients of an earlier one.
  std::string adds() const {
    const std::string earlier = is_sharded(Use::gradients, spec.parallel.shard) ? "s.adds(first)" : "!first";
    return earlier + (region.loop == Loop::loss_chunks ? " || chunk > 0" : "");
  }
};

/// Sizes the scratch memory of an op, after parameters have offsets.
using Scratch = void (*)(Graph& graph, const Op& op, const spec::Spec& spec, const FlatSizes& flat,
                         const AttentionChoices& attention);

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
using OutputSet = unsigned;
constexpr OutputSet kNoOutputs = 0;
constexpr OutputSet output(unsigned i) { return 1u << i; }

/// A set of an op's inputs.
using InputSet = unsigned;
constexpr InputSet kNoInputs = 0;
constexpr InputSet input(unsigned i) { return 1u << i; }

constexpr int kNoSum = -1;
constexpr int kNothing = -1;

/// Measured rates that price the kernels of an op.
enum class PricedAs { bytes_moved, attention_forward, attention_backward };

/// Operands of a linear layer's product.
enum class Multiplies { no_operands, x_and_weight, dy_and_weight, dy_and_x };

// Members of rows.
using Signature = void (*)(const Operands&);
using WeightType = DType (*)(const Operands&, std::size_t i);
using Gradient = void (*)(Backward&, const Op&);
using Overwrites = TensorId (*)(const Op&);
using GiveForward = void (*)(Op&);
using RowSum = int (*)(const Op&);
using CanQuantise = bool (*)(const Operands&, const Quantised&);
using ColumnMakers = InputSet (*)(const Op&);
using ModelFlops = double (*)(const Operands&);
using StreamElements = std::int64_t (*)(const Operands&);
using ListWork = std::vector<Work> (*)(const Context&);

// Defaults of rows.
DType reads_fp32(const Operands&, std::size_t);
void no_gradient(Backward&, const Op&);  // throws Failure(internal): the op is not part of a forward pass
TensorId in_a_new_place(const Op&);
int no_sum(const Op&);
InputSet no_column_makers(const Op&);
void no_scratch(Graph&, const Op&, const spec::Spec&, const FlatSizes&, const AttentionChoices&);
std::int64_t off_the_stream(const Operands&);

/// Prints attributes: "bias residual", the names of the flags that are set.
std::string flags_text(std::initializer_list<std::pair<const char*, bool>> flags);

// Members that several rows share.
TensorId over_first_input(const Op& op);
double no_products(const Operands&);           // of model_flops
std::vector<Work> fused_away(const Context&);  // throws Failure(internal): a pass should have removed the op

/// Row of an op of the forward pass. Members that are Stated have no safe default.
struct ForwardRow {
  Stated<Signature> signature;
  WeightType weight_type = reads_fp32;
  Stated<OutputSet> exact;
  bool writes_stream = false;
  Stated<Gradient> gradient;
  Stated<ModelFlops> model_flops;
  ColumnMakers column_makers = no_column_makers;
  Overwrites overwrites = in_a_new_place;
  StreamElements stream_elements = off_the_stream;
  InputSet changes = kNoInputs;
  PricedAs priced_as = PricedAs::bytes_moved;
  Multiplies multiplies = Multiplies::no_operands;
  CanQuantise can_quantise = nullptr;
  bool reads_split = false;
  Stated<ListWork> work;
};

/// Row of an op that computes gradients.
struct BackwardRow {
  Stated<Signature> signature;
  WeightType weight_type = reads_fp32;
  Stated<OutputSet> exact;
  GiveForward give_forward = nullptr;
  int may_wait_for = kNothing;
  RowSum row_sum = no_sum;
  Overwrites overwrites = in_a_new_place;
  Scratch scratch = no_scratch;
  StreamElements stream_elements = off_the_stream;
  PricedAs priced_as = PricedAs::bytes_moved;
  Multiplies multiplies = Multiplies::no_operands;
  CanQuantise can_quantise = nullptr;
  Stated<ListWork> work;
};

/// Row of an op that prepares the operands of a product of either pass.
struct OperandRow {
  Stated<Signature> signature;
  WeightType weight_type = reads_fp32;
  bool rounds_rows = false;
  std::optional<OpKind> straight = {};
  Stated<ListWork> work;
};

/// Row of an op outside of both passes: optimizer, start, inference, audit. Its pass sets its dtypes.
struct StepRow {
  Stated<Signature> signature;
  Scratch scratch = no_scratch;
  InputSet changes = kNoInputs;
  bool updates_weights = false;
  Stated<ListWork> work;
};

/// Row of an op between ranks, which changes no dtype and has no gradient.
struct RankRow {
  Stated<Signature> signature;
  bool gathers = false;
  Stated<ListWork> work;
};

/// All properties of a kind of op.
struct OpRow {
  constexpr OpRow(const ForwardRow& r)
      : signature(r.signature),
        weight_type(r.weight_type),
        exact(r.exact),
        writes_stream(r.writes_stream),
        gradient(r.gradient),
        model_flops(r.model_flops),
        column_makers(r.column_makers),
        overwrites(r.overwrites),
        stream_elements(r.stream_elements),
        changes(r.changes),
        priced_as(r.priced_as),
        multiplies(r.multiplies),
        can_quantise(r.can_quantise),
        reads_split(r.reads_split),
        work(r.work) {}
  constexpr OpRow(const BackwardRow& r)
      : signature(r.signature),
        weight_type(r.weight_type),
        exact(r.exact),
        give_forward(r.give_forward),
        may_wait_for(r.may_wait_for),
        row_sum(r.row_sum),
        overwrites(r.overwrites),
        scratch(r.scratch),
        stream_elements(r.stream_elements),
        priced_as(r.priced_as),
        multiplies(r.multiplies),
        can_quantise(r.can_quantise),
        work(r.work) {}
  constexpr OpRow(const OperandRow& r)
      : signature(r.signature),
        weight_type(r.weight_type),
        rounds_rows(r.rounds_rows),
        straight(r.straight),
        work(r.work) {}
  constexpr OpRow(const StepRow& r)
      : signature(r.signature),
        scratch(r.scratch),
        changes(r.changes),
        updates_weights(r.updates_weights),
        work(r.work) {}
  constexpr OpRow(const RankRow& r) : signature(r.signature), gathers(r.gathers), work(r.work) {}

  /// Checks number, shapes and dtypes of the operands; a comment at its definition lists them in order.
  Signature signature;
  /// Returns the dtype in which the op reads its input `i` if that is a parameter.
  WeightType weight_type = reads_fp32;
  /// Outputs that are fp32 for any compute dtype: statistics of rows, losses, workspaces.
  OutputSet exact = kNoOutputs;
  /// Whether its first output is the residual stream, which has its own dtype.
  bool writes_stream = false;
  /// Emits the ops that compute the gradients of its inputs.
  Gradient gradient = no_gradient;
  /// Makes a backward kernel with the forward op's inputs also write that op's first output, as its last; null if it
  /// cannot.
  GiveForward give_forward = nullptr;
  /// The input that a backward op may wait for until another op has written it; kNothing: it runs in place.
  int may_wait_for = kNothing;
  /// The output that is a sum over rows, which split_reductions divides into two stages; kNoSum: none.
  RowSum row_sum = no_sum;
  /// FLOPs per token of its matrix products, without padding, for the scores that a mask leaves. The model's FLOPs are
  /// three times those of the forward ops: the backward pass has two products for each.
  ModelFlops model_flops = no_products;
  /// Parameters whose rows, or elements of a vector, each produce one column of the first output: padded with it.
  ColumnMakers column_makers = no_column_makers;
  /// The input that the first output may overwrite; kNone if it needs its own buffer.
  Overwrites overwrites = in_a_new_place;
  Scratch scratch = no_scratch;
  /// Elements of the residual stream that it reads and writes.
  StreamElements stream_elements = off_the_stream;
  /// Inputs that it writes.
  InputSet changes = kNoInputs;
  /// Whether it is an optimizer's update of all weights.
  bool updates_weights = false;
  /// Whether its output holds the shards of all ranks.
  bool gathers = false;
  /// Price of its kernels; products and collectives have their own prices.
  PricedAs priced_as = PricedAs::bytes_moved;
  /// The product of a linear layer that it is. Its first two inputs are the operands.
  Multiplies multiplies = Multiplies::no_operands;
  /// Whether it rounds its first input's rows to e4m3, which the kernel that makes that input may do instead.
  bool rounds_rows = false;
  /// The op whose results for the same inputs its kernel can write after its own; nothing if there is none.
  std::optional<OpKind> straight;
  /// Whether its kernel can round a result to e4m3 in this way; null if none can.
  CanQuantise can_quantise = nullptr;
  /// Whether it can read a weight's copy, rest and ties in place of its fp32 master.
  bool reads_split = false;
  /// Lists its launches, in order.
  ListWork work;
};

const OpRow& row_of(OpKind kind);

}  // namespace llmc::ops
