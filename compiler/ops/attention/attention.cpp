// attention: causal, with a window or documents, q, k and v packed in one row (Dao et al. 2022). On CPU one kernel for
// each pass, on CUDA cuDNN or llmc's own kernels.
//
// The backward op may include RoPE's (rotates, set by the pass fuse_rope): llmc's kernels by warpgroups have both
// elements of each pair of dq and dk in the registers of one lane, and rotate them before they round and store them.
// That saves a launch that reads and writes dq and dk. With cuDNN's kernels, if those turn out faster on the device,
// that launch follows them.
#include "compiler/ops/attention/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "compiler/ops/backward.h"
#include "compiler/ops/instance.h"
#include "compiler/ops/make.h"
#include "compiler/ops/rope.h"
#include "compiler/ops/rows.h"
#include "device/cpu/arch.h"
#include "device/mask.h"

namespace llmc::ops {
namespace {

/// Checks the rows of documents, after the op's own `inputs`.
void expect_documents(const Operands& o, std::size_t inputs) {
  if (!o.op.as<AttentionAttributes>().documents) return o.count(inputs, 2);
  o.count(inputs + 2, 2);
  for (std::size_t i = inputs; i < inputs + 2; ++i)
    o.expect(o.in(i).dtype == DType::i32 && o.in(i).cols == o.graph.tokens(), "an int32 for each token");
}

/// qkv[, document_begin, document_end] -> out, lse
void signature(const Operands& o) {
  expect_documents(o, 1);
  const auto& own = o.op.as<AttentionAttributes>();
  const Heads& heads = own.heads;
  o.expect(own.window >= 0 && own.window < o.graph.sequence, "a window below the sequence, or 0");
  o.expect(o.in(0).cols == heads.columns() && o.out(0).cols == heads.query * heads.dim, "packed q, k, v in, heads out");
}

/// dout, out, qkv, lse[, table][, document_begin, document_end] -> dqkv, workspace
void backward_signature(const Operands& o) {
  const auto& own = o.op.as<AttentionAttributes>();
  expect_documents(o, own.rotates ? 5 : 4);
  o.same_shape(o.in(0), o.in(1));
  o.same_shape(o.in(2), o.out(0));
  if (own.rotates) o.expect(o.in(4).cols == own.heads.dim, "a table of one head");
  o.expect(own.documents || !own.resets, "documents, if positions begin anew in them");
}

/// Dao et al. 2022 (FlashAttention), appendix B: P is recomputed from q, k and the log-sum-exp.
void gradient(Backward& b, const Op& op) {
  const TensorId qkv = op.inputs[0], dout = b.of(op.outputs[0]);
  const TensorId workspace = b.scratch(op.name + "_workspace");
  std::vector<TensorId> inputs = {dout, op.outputs[0], qkv, op.outputs[1]};
  inputs.insert(inputs.end(), op.inputs.begin() + 1, op.inputs.end());
  b.emit(OpKind::attention_backward, op.name + "_backward", std::move(inputs), {b.part(qkv), workspace},
         op.as<AttentionAttributes>());
}

const Heads& heads_of(const Context& c) { return c.op.as<AttentionAttributes>().heads; }

std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

/// Layers of all kinds share the tensor.
void size_workspace(Graph& graph, const Op& op, const spec::Spec& spec, const FlatSizes&,
                    const AttentionChoices& choices) {
  Tensor& workspace = graph.at(op.outputs[1]);
  if (spec.target.kind == spec::TargetKind::cuda) {
    std::size_t most = 0;
    for (const AttentionChoice& choice : choices.list) most = std::max(most, choice.workspace_bytes());
    workspace.cols = workspace.pitch = static_cast<std::int64_t>(most) / bytes_of(DType::f32, 1);
  } else {
    // templates/cpu/attention_backward*.cpp: fp32 sums of dk and dv of each key head, in whole tiles.
    const Heads& heads = op.as<AttentionAttributes>().heads;
    workspace.rows = 2 * graph.batch * heads.key * round_up(graph.sequence, 64);
    workspace.cols = workspace.pitch = round_up(heads.dim, 32);
  }
}

/// Two products.
double model_flops(const Operands& o) {
  return 2 * product_of_scores(o.graph, o.op) / static_cast<double>(o.graph.tokens());
}

Instance& batched(Instance& instance, const Context& c) {
  return instance.integer("kBatch", c.graph.batch, "batch.micro_batch");
}

/// The mask of a sequence, in the params' and the kernel's names.
std::string masked(const AttentionAttributes& own) {
  const std::string mask = own.window ? "{kSequence, kWindow}" : "{kSequence, 0}";
  return own.documents ? "Mask" + mask + ".with_documents(document_begin, document_end, batch)" : mask;
}

/// Adds kBounded, which kernels read that have loops of their own for causal masks.
Instance& bounded(Instance& instance, const Context& c) {
  const auto& own = c.op.as<AttentionAttributes>();
  if (!own.documents && !own.window) return instance;
  return instance.flag("kBounded", true, "", own.documents ? "data.documents.mask" : "model.sliding_window")
      .said(false);
}

/// `sharing`: blocks of a cluster that copy keys and values for each other.
Instance& shape(Instance& instance, const Context& c, const Tensor& qkv, const Tensor& out, std::int64_t sharing = 1) {
  instance.integer("kSequence", c.graph.sequence, "batch.sequence_length")
      .integer("kHeads", heads_of(c).query, "model.num_attention_heads")
      .integer("kKvHeads", heads_of(c).key, "model.num_key_value_heads")
      .integer("kHeadDim", heads_of(c).dim, "model.head_dim")
      .integer("kPitch", qkv.pitch, kHeadCounts)
      .integer("kOutPitch", out.pitch, kHeadCounts);
  const auto& own = c.op.as<AttentionAttributes>();
  std::string operands;
  if (own.rotates) {
    instance.flag("kRotates", true, "rotated", "model");
    operands += ", const float* __restrict__ rope_table";
  }
  if (own.resets) instance.flag("kResets", true, "resets", "data.documents.reset_positions");
  if (own.documents) {
    instance.named("documents");
    operands += ", const int* __restrict__ document_begin, const int* __restrict__ document_end";
  }
  if (sharing > 1) {
    instance.integer("kMulticast", sharing, kHeadCounts).named("multicast");
    operands += ", const __grid_constant__ TileMap key_map";
  }
  if (!operands.empty()) instance.further_operands(operands, own.documents ? "data.documents.mask" : "model");
  if (own.softcap > 0) instance.real("kSoftcap", own.softcap, "model.attn_logit_softcapping");
  instance.mask(masked(own), own.documents ? "data.documents.mask" : "model.sliding_window");
  if (own.window) instance.integer("kWindow", own.window, "model.sliding_window");
  // Kernels of two kinds of layers have two names.
  return own.window ? instance.named(fmt::format("window_{}", own.window)) : instance;
}

Instance& scaled(Instance& instance, const Context& c) {
  const auto& own = c.op.as<AttentionAttributes>();
  return instance.real("kScale", own.scale(), own.multiplier ? "model.attention_multiplier" : "model.head_dim");
}

/// Inputs that come last in a call: the table and the rows of documents.
std::ptrdiff_t further_inputs(const Op& op) {
  const auto& own = op.as<AttentionAttributes>();
  return (own.rotates ? 1 : 0) + (own.documents ? 2 : 0);
}

/// `arguments`, then the op's further inputs.
std::vector<Argument> with_further(const Op& op, std::vector<Argument> arguments) {
  arguments.insert(arguments.end(), op.inputs.end() - further_inputs(op), op.inputs.end());
  return arguments;
}

/// The op's operands in the order of its kernel and of class Attention.
std::vector<Argument> kernel_operands(const Op& op) {
  std::vector<Argument> arguments(op.inputs.begin(), op.inputs.end() - further_inputs(op));
  arguments.insert(arguments.end(), op.outputs.begin(), op.outputs.end());
  return with_further(op, std::move(arguments));
}

enum class Pass { forward, backward_queries, backward_keys };

/// Blocks of a cluster that copy keys and values for each other, in a pass by warpgroups.
std::int64_t sharing_blocks(Pass pass, const Heads& heads) {
  return pass == Pass::backward_keys ? 1
                                     : blocks_that_share_keys(heads.query, heads.key, heads.dim, pass == Pass::forward);
}

/// Bytes of a block's tiles with warpgroup products: two buffers of two tiles of 64 rows; keys' also have lse and delta
/// of 64 queries, and two tiles more for a head whose keys and values do not fit in registers. With copies for a
/// cluster there are four barriers.
std::int64_t warpgroup_shared(Pass pass, const Heads& heads) {
  const std::int64_t head_dim = heads.dim, tile = bytes_of(DType::bf16, 64 * warpgroup_columns(head_dim));
  if (pass != Pass::backward_keys) return 4 * tile + (sharing_blocks(pass, heads) > 1 ? 32 : 0);
  return (warpgroup_columns(head_dim) > 64 ? 6 : 4) * tile + 4 * bytes_of(DType::f32, 64);
}

/// Launches templates/cuda/attention_*.cu. A warp owns 32 queries (backward_keys: keys) of a head, 16 of one wider than
/// 64; with warpgroup products a block owns 64. A head wider than 128 leaves room in shared memory for two warps, and
/// in registers for half of the columns of dq, or a quarter of those of dk and dv. In fp32 eight lanes own 4 queries of
/// a head, 2 of one wider than 64, 1 of one wider than 128.
Work portable(const Context& c, Pass pass, const Tensor& qkv, const Tensor& out, std::vector<Argument> arguments) {
  const auto [query, key, dim] = heads_of(c);
  const std::int64_t batch = c.graph.batch, sequence = c.graph.sequence;
  const bool forward = pass == Pass::forward, keys = pass == Pass::backward_keys, wide = dim > 128;
  const bool scalar = qkv.dtype == DType::f32;
  const bool warpgroups = qkv.dtype == DType::bf16 && attention_in_warpgroups(c.spec, dim);
  const std::int64_t lanes = wide ? 64 : 128;
  const std::int64_t rows = warpgroups ? 64
                            : scalar   ? lanes / 8 *
                                           (dim <= 64 ? 4
                                            : wide    ? 1
                                                      : 2)
                                     : lanes / 32 * (dim <= 64 ? 32 : 16);
  const std::int64_t tiles = (sequence + rows - 1) / rows, heads = keys ? key : query;
  const std::int64_t parts = !wide || forward || scalar ? 1 : keys ? 4 : 2;
  const double column = static_cast<double>(bytes_of(qkv.dtype, c.graph.tokens() * dim));  // of a head
  const double line = 4.0 * static_cast<double>(batch * query * sequence);                 // of lse, or delta
  const double h = static_cast<double>(query), kv = static_cast<double>(key);
  const double bytes = forward ? column * (2 * h + 2 * kv) + line
                       : keys  ? column * (2 * h + 4 * kv) + 2 * line
                               : column * (4 * h + 2 * kv) + 2 * line;
  const double table = c.op.as<AttentionAttributes>().rotates ? c.bytes(c.in(4)) : 0;
  const std::string name = forward ? "attention_forward"
                           : keys  ? "attention_backward_keys"
                                   : "attention_backward_queries";
  Instance instance = Instance::of_target(c, name + (warpgroups ? "_warpgroups" : scalar ? "_scalar" : ""));
  if (!warpgroups && !scalar) instance.element(qkv.dtype);
  if (!scalar) bounded(instance, c);
  if (!warpgroups) batched(instance, c);  // warpgroup kernels derive the batch from the block's index
  const std::int64_t sharing = warpgroups ? sharing_blocks(pass, heads_of(c)) : 1;
  if (sharing > 1)
    arguments.push_back(arguments[forward ? 0 : 2].in(fmt::format(
        "map_of_heads($, {}, {}, {}, {}, {}, {})", batch, sequence, query + 2 * key, dim, qkv.pitch, 64 / sharing)));
  return scaled(shape(instance, c, qkv, out, sharing), c)
      .costs(bytes + table, (forward ? 2
                             : keys  ? 4
                                     : 3) *
                                product_of_scores(c.graph, c.op))
      .shaped(
          {lanes, lanes, batch * heads * parts * tiles, sharing, warpgroups ? warpgroup_shared(pass, heads_of(c)) : 0},
          fmt::format("{} {} of {} heads", batch * sequence, keys ? "keys" : "queries", heads), std::move(arguments));
}

Work on_cpu(const Context& c, std::string name, int passes, double products, const Tensor& qkv, const Tensor& out,
            const Tensor& lse) {
  const bool tiles = attention_in_tiles(c.spec) && qkv.dtype == DType::bf16;  // an audit's is fp32
  Instance instance = Instance::of_target(c, std::move(name) + (tiles ? "_tiles" : ""));
  if (!tiles) instance.element(qkv.dtype);  // tiles are bf16
  return scaled(shape(batched(bounded(instance, c), c), c, qkv, out), c)
      .costs(passes * (c.bytes(qkv) + c.bytes(out)) + c.bytes(lse), products * product_of_scores(c.graph, c.op))
      .rows(c.graph.batch * heads_of(c).key, heads_of(c).dim, qkv.dtype, kernel_operands(c.op),
            fmt::format("{} sequences of {} tokens, {} query and {} key heads of {}", c.graph.batch, c.graph.sequence,
                        heads_of(c).query, heads_of(c).key, heads_of(c).dim));
}

/// Counts each operand once, without the workspace and the table, which it does not read.
Work in_cudnn(const Context& c, Call call, double products, std::size_t outputs) {
  Work work{.call = call, .arguments = kernel_operands(c.op), .flops = products * product_of_scores(c.graph, c.op)};
  for (std::size_t i = 0; i < c.op.inputs.size() - (c.op.as<AttentionAttributes>().rotates ? 1 : 0); ++i)
    work.bytes += static_cast<double>(c.in(i).bytes());
  for (std::size_t i = 0; i < outputs; ++i) work.bytes += static_cast<double>(c.out(i).bytes());
  return work;
}

const AttentionChoice& chosen(const Context& c) { return c.attention.of(c.graph, c.op, c.spec); }

std::vector<Work> work(const Context& c) {
  const Tensor &qkv = c.in(0), &out = c.out(0);
  if (!c.cuda()) return {on_cpu(c, "attention_forward", 1, 2, qkv, out, c.out(1))};
  const bool audited = c.region.is_audit();  // in fp32, which cuDNN does not have
  if (!audited && chosen(c).forward == AttentionBy::cudnn) return {in_cudnn(c, Call::attention_forward, 2, 2)};
  return {portable(c, Pass::forward, qkv, out, kernel_operands(c.op))};
}

/// RoPE's backward pass, which cuDNN does not include.
Work rotate_back(const Context& c) {
  const Heads& heads = heads_of(c);
  const Op rope = make::rope_backward(c.op.name, {c.op.outputs[0], c.op.inputs[4]}, {c.op.outputs[0]},
                                      RopeAttributes{.heads = heads, .rotary = heads.dim});
  Work work =
      row_of(rope.kind).work(Context{{c.graph, c.region, rope}, c.spec, c.flat, c.attention, c.micro_batches}).front();
  work.call = Call::rotate_back;
  work.arguments = {"dqkv", "rope_table"};
  return work;
}

std::vector<Work> backward_work(const Context& c) {
  const Tensor &out = c.in(1), &qkv = c.in(2);
  if (!c.cuda()) return {on_cpu(c, "attention_backward", 2, 5, qkv, out, c.in(3))};
  if (chosen(c).forward == AttentionBy::cudnn) {
    // Class Attention uses one of the variants in the trainer: before tuning the first, after it any.
    const bool own = chosen(c).backward.front().by == AttentionBy::portable;
    std::vector<Work> ways = {in_cudnn(c, Call::attention_backward, 5, 1)};
    ways[0].taken = !own;
    const bool rotates = c.op.as<AttentionAttributes>().rotates;
    if (chosen(c).carries(AttentionBy::portable)) {
      std::vector<Argument> queries = {"dout", "out", "qkv", "lse", "dqkv", "delta"};
      std::vector<Argument> keys = {"dout", "qkv", "lse", "delta", "dqkv"};
      if (rotates)
        for (auto* arguments : {&queries, &keys}) arguments->emplace_back("rope_table");
      ways.push_back(portable(c, Pass::backward_queries, qkv, out, std::move(queries)));
      ways.push_back(portable(c, Pass::backward_keys, qkv, out, std::move(keys)));
      for (std::size_t i = 1; i < ways.size(); ++i) ways[i].call = Call::own_backward, ways[i].taken = own;
    }
    if (rotates && chosen(c).carries(AttentionBy::cudnn)) {
      ways.push_back(rotate_back(c));
      ways.back().taken = !own;
    }
    return ways;
  }
  const auto &in = c.op.inputs, &result = c.op.outputs;
  return {portable(c, Pass::backward_queries, qkv, out, kernel_operands(c.op)),
          portable(c, Pass::backward_keys, qkv, out, with_further(c.op, {in[0], in[2], in[3], result[1], result[0]}))};
}

}  // namespace

std::string AttentionAttributes::text() const {
  return heads.text() + (window ? fmt::format(" window {}", window) : "") + (documents ? " documents" : "") +
         (multiplier ? fmt::format(" scale {}", multiplier) : "") +
         (softcap > 0 ? fmt::format(" softcap {}", softcap) : "") + (rotates ? " rotates" : "") +
         (resets ? " resets" : "");
}

double AttentionAttributes::scale() const {
  return multiplier ? multiplier : 1 / std::sqrt(static_cast<double>(heads.dim));
}

double product_of_scores(const Graph& graph, const Op& attention) {
  const auto& own = attention.as<AttentionAttributes>();
  return 2 * own.mask(graph.sequence).scores() * static_cast<double>(graph.batch * own.heads.query * own.heads.dim);
}

bool has_tiles(const spec::Spec& spec) {
  return spec.target.kind == spec::TargetKind::cpu && !spec.target.arch.empty() &&
         arch_has_tiles(spec.target.arch.front());
}

bool products_in_tiles(const spec::Spec& spec, DType operand) {
  return has_tiles(spec) && (operand == DType::bf16 || spec.matmul == spec::Matmul::bf16x3);
}

bool attention_in_warpgroups(const spec::Spec& spec, std::int64_t head_dim) {
  const auto& archs = spec.target.arch;
  // By warps the passes reach 0.65 of the rate of warpgroups for heads of up to 64 columns (choice.cpp), which pays for
  // 40 of 64. Copies have 16 bytes.
  const bool pays = head_dim >= 48 && head_dim <= 128 && head_dim % 8 == 0;
  return spec.target.kind == spec::TargetKind::cuda && pays && !archs.empty() &&
         std::all_of(archs.begin(), archs.end(), [](const std::string& arch) { return arch == "90a"; });
}

std::int64_t blocks_that_share_keys(std::int64_t query_heads, std::int64_t key_heads, std::int64_t head_dim,
                                    bool forward) {
  // Where the L2 cache bounds the pass by more than a tenth (docs/reference/kernel-counts.md).
  const bool pays = forward || head_dim > 64;
  return pays ? std::gcd(query_heads / key_heads, std::int64_t{4}) : 1;
}

bool attention_in_tiles(const spec::Spec& spec) { return has_tiles(spec) && spec.compute == DType::bf16; }

constexpr OpRow kAttention = ForwardRow{.signature = signature,
                                        .exact = output(1),
                                        .gradient = gradient,
                                        .model_flops = model_flops,
                                        .priced_as = PricedAs::attention_forward,
                                        .work = work};

constexpr OpRow kAttentionBackward = BackwardRow{.signature = backward_signature,
                                                 .exact = output(1),
                                                 .scratch = size_workspace,
                                                 .priced_as = PricedAs::attention_backward,
                                                 .work = backward_work};

}  // namespace llmc::ops
