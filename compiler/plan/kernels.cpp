#include "compiler/plan/kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/plan/attention.h"
#include "compiler/plan/lanes.h"
#include "device/cpu/arch.h"

namespace llmc::plan {

using namespace graph;

namespace {

/// Collects the params of one instance.
class Instance {
 public:
  Instance(std::string template_name, const spec::Spec& spec) : spec_(spec) {
    kernel_.name = kernel_.template_name = std::move(template_name);
  }

  Instance& element(DType dtype, const char* name = "Act", const char* origin = "precision.compute") {
    kernel_.params.push_back({"using", name, row_of(dtype).c_name, origin});
    return *this;
  }
  Instance& integer(const char* name, std::int64_t value, const char* origin) {
    kernel_.params.push_back({"int", name, std::to_string(value), origin});
    return *this;
  }
  Instance& real(const char* name, double value, const char* origin) {
    std::string text = fmt::format("{}", value);  // shortest that reads back
    if (text.find_first_of(".e") == std::string::npos) text += ".0";
    kernel_.params.push_back({"float", name, text + "f", origin});
    return *this;
  }
  /// A flag that is set is part of the instance's name.
  Instance& flag(const char* name, bool value, const char* suffix, const char* origin) {
    kernel_.params.push_back({"bool", name, value ? "true" : "false", origin});
    if (value) kernel_.name += std::string("_") + suffix;
    return *this;
  }
  Instance& named(const std::string& suffix) {
    kernel_.name += "_" + suffix;
    return *this;
  }

  /// `groups` of lanes, each with `width` fp32 elements of flat buffers at a time.
  Kernel finish_stream(std::int64_t groups, std::int64_t width, double bytes, double flops) {
    return finish(stream_shape(groups), groups, width, bytes, flops);
  }

  /// `groups` of lanes share the work; each holds rows of `width` elements of `dtype`.
  Kernel finish(std::int64_t groups, std::int64_t width, DType dtype, double bytes, double flops) {
    return finish(launch_shape(groups, width, dtype), groups, width, bytes, flops);
  }

  Kernel finish(LaunchShape shape, std::int64_t groups, std::int64_t width, double bytes, double flops) {
    const bool cuda = spec_.target.kind == spec::TargetKind::cuda;
    kernel_.params.push_back({"int", "kLanes", std::to_string(cuda ? shape.lanes : 1), "target.kind"});
    kernel_.rows = groups;
    kernel_.cols = width;
    kernel_.blocks = shape.blocks;
    kernel_.threads = shape.threads;
    kernel_.cluster = shape.cluster;
    kernel_.bytes = bytes;
    kernel_.flops = flops;
    return std::move(kernel_);
  }

 private:
  const spec::Spec& spec_;
  Kernel kernel_;
};

constexpr const char* kTokens = "batch.micro_batch, batch.sequence_length";
constexpr const char* kStream = "precision.compute, precision.residual";
constexpr const char* kHidden = "model.hidden_size";
constexpr const char* kFfn = "model.intermediate_size";
constexpr const char* kVocab = "model.vocab_size";
constexpr const char* kHeads = "model.num_attention_heads, model.num_key_value_heads";

/// Thread-block clusters, from sm_90 on: every architecture of the binary must have them.
bool has_clusters(const std::vector<std::string>& archs) {
  return std::all_of(archs.begin(), archs.end(), [](const std::string& arch) { return std::stoi(arch) >= 90; });
}

enum class AttentionPass { forward, backward_queries, backward_keys };

/// templates/cuda/attention_*.cu: a warp has 32 queries (backward_keys: keys) of a head, 16 of one wider than 64. A head
/// wider than 128 leaves room in shared memory for two warps, and in registers for half of the columns of dq, or a quarter
/// of those of dk and dv.
Kernel portable_attention_kernel(AttentionPass pass, const Graph& graph, const Tensor& qkv, const Tensor& out,
                                 const spec::Spec& spec) {
  const bool forward = pass == AttentionPass::forward, keys = pass == AttentionPass::backward_keys;
  const bool wide = graph.head_dim > 128;
  const std::int64_t lanes = wide ? 64 : 128;
  const std::int64_t rows = lanes / 32 * (graph.head_dim <= 64 ? 32 : 16), tiles = (graph.sequence + rows - 1) / rows;
  const std::int64_t heads = keys ? graph.kv_heads : graph.heads, parts = !wide || forward ? 1 : keys ? 4 : 2;
  const double half_square = static_cast<double>(graph.batch * graph.heads) * static_cast<double>(graph.sequence) *
                             static_cast<double>(graph.sequence * graph.head_dim);
  const double column = 2.0 * static_cast<double>(graph.tokens() * graph.head_dim);  // bytes of a head's
  const double line = 4.0 * static_cast<double>(graph.batch * graph.heads * graph.sequence);  // of lse, or delta
  const double h = static_cast<double>(graph.heads), kv = static_cast<double>(graph.kv_heads);
  const double bytes = forward ? column * (2 * h + 2 * kv) + line
                       : keys  ? column * (2 * h + 4 * kv) + 2 * line
                               : column * (4 * h + 2 * kv) + 2 * line;
  return Instance(forward ? "attention_forward" : keys ? "attention_backward_keys" : "attention_backward_queries", spec)
      .integer("kBatch", graph.batch, "batch.micro_batch").integer("kSequence", graph.sequence, "batch.sequence_length")
      .integer("kHeads", graph.heads, "model.num_attention_heads")
      .integer("kKvHeads", graph.kv_heads, "model.num_key_value_heads")
      .integer("kHeadDim", graph.head_dim, "model.head_dim").integer("kPitch", qkv.pitch, kHeads)
      .integer("kOutPitch", out.pitch, kHeads)
      .real("kScale", 1 / std::sqrt(static_cast<double>(graph.head_dim)), "model.head_dim")
      .finish({lanes, lanes, graph.batch * heads * parts * tiles}, graph.batch * heads * graph.sequence,
              graph.head_dim, bytes, (forward ? 2 : keys ? 4 : 3) * half_square);
}

}  // namespace

std::string Kernel::key() const {
  std::string text = template_name;
  for (const KernelParam& p : params) text += fmt::format(" {}={}", p.name, p.value);
  return text;
}

std::int64_t rows_seen(const Graph& graph, const Region& region, const Tensor& tensor) {
  return region.loop == Loop::loss_chunks && tensor.rows == graph.tokens() ? graph.chunk_rows : tensor.rows;
}

namespace {

/// The instance of every op that one kernel runs.
std::optional<Kernel> kernel_for(const Graph& graph, const Region& region, const Op& op,
                                 const ParameterLayout& parameters, const spec::Spec& spec) {
  const auto in = [&](std::size_t i) -> const Tensor& { return graph.at(op.inputs.at(i)); };
  const auto out = [&](std::size_t i) -> const Tensor& { return graph.at(op.outputs.at(i)); };
  const auto width = [](const Tensor& t) { return static_cast<double>(bytes_of(t.dtype, t.rows * t.cols)); };
  const double elements = static_cast<double>(parameters.elements);
  const std::int64_t groups_of_heads = graph.heads + graph.kv_heads;
  const double size = static_cast<double>(bytes_of(spec.compute, 1));

  switch (op.kind) {
    case OpKind::embedding:
      return Instance("embedding_forward", spec).element(out(0).dtype, "Act", kStream).integer("kRows", out(0).rows, kTokens)
          .integer("kCols", out(0).cols, kHidden).integer("kPitch", out(0).pitch, kHidden)
          .finish(out(0).rows, out(0).cols, out(0).dtype, 2 * width(out(0)) + width(in(0)), 0);
    case OpKind::rms_norm:
      return Instance("rms_norm_forward", spec).element(out(0).dtype).element(in(0).dtype, "Residual", kStream).integer("kRows", in(0).rows, kTokens)
          .integer("kCols", in(0).cols, kHidden).integer("kPitch", in(0).pitch, kHidden)
          .real("kEps", graph.eps, "model.rms_norm_eps")
          .finish(in(0).rows, in(0).cols, in(0).dtype, width(in(0)) + width(in(1)) + width(out(0)) + width(out(1)),
                  4.0 * in(0).rows * in(0).cols);
    case OpKind::rms_norm_backward: {
      const double passes = 2 + op.residual + op.recompute;  // dy, dx, and the flags' extra one
      return Instance("rms_norm_backward", spec).element(in(0).dtype).element(in(1).dtype, "Residual", kStream).integer("kRows", in(0).rows, kTokens)
          .integer("kCols", in(0).cols, kHidden).integer("kPitch", in(0).pitch, kHidden)
          .integer("kBlocks", out(1).rows, kTokens).flag("kResidual", op.residual, "residual", "model")
          .flag("kRecompute", op.recompute, "recompute", "memory.recompute")
          .finish(resident_shape(out(1).rows, in(0).cols), out(1).rows, in(0).cols,
                  passes * width(in(0)) + width(in(1)) + width(out(1)) + width(in(2)) + width(in(3)),
                  10.0 * in(0).rows * in(0).cols);
    }
    case OpKind::column_sum:
      return Instance("column_sum", spec).named(std::to_string(in(0).cols)).element(in(0).dtype)
          .integer("kRows", in(0).rows, kTokens).integer("kCols", in(0).cols, kHidden)
          .integer("kPitch", in(0).pitch, kHidden).integer("kBlocks", out(0).rows, kTokens)
          .finish(out(0).rows, in(0).cols, in(0).dtype, width(in(0)) + width(out(0)), 1.0 * in(0).rows * in(0).cols);
    case OpKind::column_reduce: {
      // Rows of a matrix lie end to end: adding up every 32nd row is adding up rows that are 32 times as long.
      const std::int64_t left = out(0).rows, cols = left * in(0).cols;
      Instance instance("column_reduce", spec);
      if (left > 1) instance.named("to_" + std::to_string(left));
      return instance.named(std::to_string(in(0).cols)).integer("kBlocks", in(0).rows / left, kTokens)
          .integer("kCols", cols, kHidden)
          .finish((cols + 127) / 128, 128, DType::f32, width(in(0)) + (left > 1 ? 1 : 2) * width(out(0)), 1.0 * in(0).rows * in(0).cols);
    }
    case OpKind::rope:
    case OpKind::rope_backward: {
      const double turned = static_cast<double>(in(0).rows * groups_of_heads * graph.head_dim);
      return Instance("rope", spec).element(in(0).dtype).integer("kRows", in(0).rows, kTokens)
          .integer("kSequence", graph.sequence, "batch.sequence_length").integer("kHeads", groups_of_heads, kHeads)
          .integer("kHeadDim", graph.head_dim, "model.head_dim").integer("kPitch", in(0).pitch, kHeads)
          .flag("kInverse", op.kind == OpKind::rope_backward, "inverse", "model")
          .finish(in(0).rows, groups_of_heads * graph.head_dim, in(0).dtype,
                  2 * turned * size + width(graph.at(graph.find("rope_table"))), 3 * turned);
    }
    case OpKind::attention:
    case OpKind::attention_backward: {
      const bool backward = op.kind == OpKind::attention_backward;
      const Tensor& qkv = backward ? in(2) : in(0);
      const Tensor& result = backward ? in(1) : out(0);
      const Tensor& lse = backward ? in(3) : out(1);
      const double half_square = static_cast<double>(graph.batch * graph.heads) * graph.sequence * graph.sequence * graph.head_dim;
      const bool tiles = attention_in_tiles(spec);
      Instance instance(std::string(backward ? "attention_backward" : "attention_forward") + (tiles ? "_tiles" : ""), spec);
      if (!tiles) instance.element(qkv.dtype);  // tiles are bf16
      return instance.integer("kBatch", graph.batch, "batch.micro_batch").integer("kSequence", graph.sequence, "batch.sequence_length")
          .integer("kHeads", graph.heads, "model.num_attention_heads")
          .integer("kKvHeads", graph.kv_heads, "model.num_key_value_heads")
          .integer("kHeadDim", graph.head_dim, "model.head_dim").integer("kPitch", qkv.pitch, kHeads)
          .integer("kOutPitch", result.pitch, kHeads)
          .finish(graph.batch * graph.kv_heads, graph.head_dim, qkv.dtype,
                  (backward ? 2 : 1) * (width(qkv) + width(result)) + width(lse), (backward ? 5 : 2) * half_square);
    }
    case OpKind::swiglu:
    case OpKind::swiglu_backward: {
      const bool backward = op.kind == OpKind::swiglu_backward;
      const Tensor& one = backward ? in(0) : out(0);
      const Tensor& pair = backward ? in(1) : in(0);
      const double passes = backward ? 5 + op.recompute : 3;
      Instance instance(backward ? "swiglu_backward" : "swiglu_forward", spec);
      instance.element(one.dtype).integer("kRows", one.rows, kTokens).integer("kCols", one.cols, kFfn)
          .integer("kPitch", pair.pitch / 2, kFfn);
      if (backward) instance.flag("kRecompute", op.recompute, "recompute", "memory.recompute");
      return instance.finish(one.rows, one.cols, one.dtype, passes * width(one), (backward ? 12.0 : 6.0) * one.rows * one.cols);
    }
    case OpKind::cross_entropy: {
      const std::int64_t rows = rows_seen(graph, region, in(0));
      const bool cuda = spec.target.kind == spec::TargetKind::cuda, clusters = cuda && has_clusters(spec.target.arch);
      const LaunchShape shape = (clusters ? cluster_shape : launch_shape)(rows, in(0).cols, in(0).dtype);
      // A row that does not stay is read for its sum and for its gradient.
      const bool once = !cuda || stays_in_registers(shape, in(0).cols, in(0).dtype);
      const double reads = once || !op.gradient ? 1 : 2;
      return Instance("cross_entropy", spec).element(in(0).dtype).integer("kRows", rows, "memory.loss_chunk")
          .integer("kCols", in(0).cols, kVocab).integer("kPitch", in(0).pitch, kVocab)
          .flag("kGradient", op.gradient, "gradient", "model").integer("kCluster", shape.cluster, "model.vocab_size, target.arch")
          .finish(shape, rows, in(0).cols, (reads + op.gradient) * static_cast<double>(rows * in(0).cols) * size + 8.0 * rows,
                  5.0 * rows * in(0).cols);
    }
    case OpKind::loss_sum:
      return Instance("loss_sum", spec).integer("kRows", in(0).cols, kTokens)
          .finish(1, in(0).cols, DType::f32, width(in(0)), in(0).cols);
    case OpKind::gather_rows:
      return Instance("gather_rows", spec).element(in(0).dtype).integer("kRows", out(0).rows, "batch.micro_batch")
          .integer("kCols", in(0).cols, kHidden).integer("kPitch", in(0).pitch, kHidden)
          .finish(out(0).rows, in(0).cols, in(0).dtype, 2 * width(out(0)), 0);
    case OpKind::embedding_backward:
      // Rows of dtable that occur, read and written: at most so many. Lanes for one: the sums are fp32, and by the lanes of a bf16 row they spill (2,048 columns, sm_90a).
      return Instance("embedding_backward", spec).element(in(0).dtype).integer("kCols", in(0).cols, kHidden)
          .integer("kPitch", in(0).pitch, kHidden)
          .finish(in(0).rows, in(0).cols, DType::f32, width(in(0)) + 2.0 * 4 * std::min(in(0).rows, out(0).rows) * in(0).cols, 1.0 * in(0).rows * in(0).cols);
    case OpKind::gradient_norm:
      return Instance("gradient_norm", spec)
          .finish_stream(parameters.chunk_count, parameters.chunk_elements, 4 * elements, 2 * elements);
    case OpKind::gradient_clip:
      return Instance("gradient_clip", spec).finish(1, parameters.chunk_count, DType::f32, 4.0 * parameters.chunk_count, parameters.chunk_count);
    case OpKind::adamw:
      return Instance("adamw", spec).element(spec.compute).flag("kCopy", op.copies, "copy", "precision.compute")
          .flag("kNorms", !op.outputs.empty(), "norms", "metrics.per_parameter")
          .finish_stream(parameters.chunk_count, parameters.chunk_elements,
                         28 * elements + (op.copies ? static_cast<double>(bytes_of(spec.compute, parameters.elements)) : 0),
                         15 * elements);
    case OpKind::initialise: return Instance("init_normal", spec).finish(4096, 1024, DType::f32, 4 * elements, 0);
    case OpKind::cast:
      return Instance("cast_weights", spec).element(out(0).dtype)
          .finish_stream(parameters.chunk_count, parameters.chunk_elements,
                         4 * elements + static_cast<double>(bytes_of(out(0).dtype, parameters.elements)), 0);
    case OpKind::parameter_norms:
      return Instance("parameter_norms", spec)
          .integer("kParameters", static_cast<std::int64_t>(parameters.slices.size()), "model")
          .finish(static_cast<std::int64_t>(parameters.slices.size()), 32, DType::f32, 12.0 * parameters.chunk_count, 3.0 * parameters.chunk_count);
    default: return std::nullopt;
  }
}

}  // namespace

bool attention_in_tiles(const spec::Spec& spec) {
  return spec.target.kind == spec::TargetKind::cpu && spec.compute == DType::bf16 && !spec.target.arch.empty() &&
         arch_has_tiles(spec.target.arch.front());
}

std::vector<Kernel> kernels_for(const Graph& graph, const Region& region, const Op& op, const ParameterLayout& parameters,
                                const spec::Spec& spec) {
  const bool backward = op.kind == OpKind::attention_backward;
  if (spec.target.kind == spec::TargetKind::cuda && (backward || op.kind == OpKind::attention)) {
    const AttentionChoice choice = choose_attention(graph, spec);
    if ((backward ? choice.backward : choice.forward) == AttentionBy::cudnn) return {};
    const Tensor &qkv = graph.at(op.inputs[backward ? 2 : 0]), &out = graph.at(backward ? op.inputs[1] : op.outputs[0]);
    if (!backward) return {portable_attention_kernel(AttentionPass::forward, graph, qkv, out, spec)};
    return {portable_attention_kernel(AttentionPass::backward_queries, graph, qkv, out, spec),
            portable_attention_kernel(AttentionPass::backward_keys, graph, qkv, out, spec)};
  }
  std::vector<Kernel> kernels;
  if (auto kernel = kernel_for(graph, region, op, parameters, spec)) kernels.push_back(std::move(*kernel));
  return kernels;
}

std::optional<Product> product_for(const Graph& graph, const Region& region, const Op& op) {
  if (op.kind != OpKind::linear && op.kind != OpKind::linear_dgrad && op.kind != OpKind::linear_wgrad) return std::nullopt;
  const Tensor &a = graph.at(op.inputs[0]), &b = graph.at(op.inputs[1]), &d = graph.at(op.outputs[0]);
  Product product;
  product.name = op.kind == OpKind::linear ? op.name + "_forward" : op.name;
  if (const auto again = product.name.find("_again"); again != std::string::npos) product.name.erase(again, 6);
  GemmShape& s = product.shape;
  s.operand = a.dtype;
  s.result = d.dtype;
  s.pitch_a = a.pitch;
  s.pitch_b = b.pitch;
  s.pitch_d = d.pitch;
  s.bias = op.bias;
  s.residual = op.residual;
  if (op.kind == OpKind::linear) {
    s.m = rows_seen(graph, region, a), s.n = b.rows, s.k = b.cols;
    s.transpose_b = true;
  } else if (op.kind == OpKind::linear_dgrad) {
    s.m = rows_seen(graph, region, a), s.n = b.cols, s.k = b.rows;
  } else {
    s.m = a.cols, s.n = b.cols, s.k = rows_seen(graph, region, a);
    s.transpose_a = true;
    s.accumulates = true;
  }
  const double m = static_cast<double>(s.m), n = static_cast<double>(s.n), k = static_cast<double>(s.k);
  product.flops = 2 * m * n * k;
  product.bytes = static_cast<double>(bytes_of(a.dtype, s.m * s.k + s.k * s.n) + bytes_of(d.dtype, s.m * s.n) * (s.residual ? 2 : 1));
  return product;
}

}  // namespace llmc::plan
