#include "compiler/graph/gradients.h"

#include <array>
#include <map>

#include "error.h"

namespace llmc::graph {
namespace {

/// Builds one backward region from one forward region, last op first.
class Backward {
 public:
  Backward(Graph& graph, Region& region, Scope scope) : graph_(graph), region_(region), scope_(scope) {}

  /// Says that `gradient` is (a part of) the gradient of `tensor`.
  void seed(TensorId tensor, TensorId gradient) { parts_[tensor].push_back(gradient); }

  /// The gradient of `tensor`: the sum of all parts, added up by an op where there are two.
  TensorId of(TensorId tensor) {
    std::vector<TensorId>& parts = parts_[tensor];
    if (parts.empty()) throw Failure(Exit::internal, "no gradient reaches %" + graph_.at(tensor).name);
    while (parts.size() > 1) {
      const TensorId sum = like(tensor, "d_" + graph_.at(tensor).name);
      emit(OpKind::add, "d_" + graph_.at(tensor).name + "_sum", {parts[0], parts[1]}, {sum});
      parts.erase(parts.begin());
      parts[0] = sum;
    }
    return parts[0];
  }

  /// A new part of the gradient of `tensor`, produced by op `by`.
  TensorId part(TensorId tensor, const std::string& by) {
    const std::string name = "d_" + graph_.at(tensor).name;
    const TensorId id = like(tensor, parts_[tensor].empty() ? name : name + "_by_" + by);
    seed(tensor, id);
    return id;
  }

  TensorId gradient_of_parameter(TensorId parameter) const { return graph_.at(parameter).partner; }

  void emit(OpKind kind, const std::string& name, std::vector<TensorId> inputs, std::vector<TensorId> outputs) {
    region_.ops.push_back({.kind = kind, .name = name, .inputs = std::move(inputs), .outputs = std::move(outputs)});
  }

  TensorId scratch(const std::string& name, std::int64_t rows, std::int64_t cols) {
    return graph_.add({.name = name, .rows = rows, .cols = cols, .scope = scope_});
  }

  Graph& graph() { return graph_; }

 private:
  TensorId like(TensorId tensor, const std::string& name) {
    const Tensor& t = graph_.at(tensor);
    return graph_.add({.name = name, .dtype = t.dtype, .rows = t.rows, .cols = t.cols, .scope = scope_});
  }

  Graph& graph_;
  Region& region_;
  Scope scope_;
  std::map<TensorId, std::vector<TensorId>> parts_;
};

using Rule = void (*)(Backward&, const Op&);

/// y = x W^T + b: dx = dy W, dW += dy^T x, db += column sums of dy.
void linear(Backward& b, const Op& op) {
  const TensorId x = op.inputs[0], weight = op.inputs[1], dy = b.of(op.outputs[0]);
  b.emit(OpKind::linear_wgrad, op.name + "_wgrad", {dy, x}, {b.gradient_of_parameter(weight)});
  if (op.bias) b.emit(OpKind::column_sum, op.name + "_bgrad", {dy}, {b.gradient_of_parameter(op.inputs[2])});
  b.emit(OpKind::linear_dgrad, op.name + "_dgrad", {dy, weight}, {b.part(x, op.name)});
}

/// y = x * rstd * w: dx = rstd * (w dy - x rstd^2 mean(w dy x)), dw += column sums of dy x rstd.
void rms_norm(Backward& b, const Op& op) {
  const TensorId x = op.inputs[0], weight = op.inputs[1], dy = b.of(op.outputs[0]);
  b.emit(OpKind::rms_norm_backward, op.name + "_backward", {dy, x, weight, op.outputs[1]},
         {b.part(x, op.name), b.gradient_of_parameter(weight)});
}

/// A rotation: its gradient is the rotation by minus the angle.
void rope(Backward& b, const Op& op) {
  const TensorId dy = b.of(op.outputs[0]);
  b.emit(OpKind::rope_backward, op.name + "_backward", {dy, op.inputs[1]}, {b.part(op.inputs[0], op.name)});
}

/// Dao et al. 2022 (FlashAttention), appendix B: P is computed again from q, k and the log-sum-exp.
void attention(Backward& b, const Op& op) {
  const TensorId qkv = op.inputs[0], dout = b.of(op.outputs[0]);
  const TensorId workspace = b.scratch(op.name + "_workspace", 1, 1);
  b.emit(OpKind::attention_backward, op.name + "_backward", {dout, op.outputs[0], qkv, op.outputs[1]},
         {b.part(qkv, op.name), workspace});
}

/// s = silu(g) u, silu(g) = g sigmoid(g): dg = ds u sigmoid(g) (1 + g (1 - sigmoid(g))), du = ds silu(g).
void swiglu(Backward& b, const Op& op) {
  const TensorId ds = b.of(op.outputs[0]);
  b.emit(OpKind::swiglu_backward, op.name + "_backward", {ds, op.inputs[0]}, {b.part(op.inputs[0], op.name)});
}

void add(Backward& b, const Op& op) {
  const TensorId dy = b.of(op.outputs[0]);
  b.seed(op.inputs[0], dy);
  b.seed(op.inputs[1], dy);
}

/// dlogits = (softmax(logits) - onehot(target)) / targets of the global batch.
void cross_entropy(Backward& b, const Op& op) {
  b.emit(OpKind::cross_entropy_backward, op.name + "_backward", {op.inputs[0], op.inputs[1]},
         {b.part(op.inputs[0], op.name)});
}

/// dE[token] += sum of dx over the positions that hold the token, in a fixed order.
void embedding(Backward& b, const Op& op) {
  Graph& g = b.graph();
  b.emit(OpKind::embedding_backward, op.name + "_backward",
         {b.of(op.outputs[0]), g.find("embedding_order"), g.find("run_begin"), g.find("run_token"), g.find("run_count")},
         {b.gradient_of_parameter(op.inputs[1])});
}

/// The loss is where gradients start.
void loss_sum(Backward&, const Op&) {}

struct Row {
  OpKind kind;
  Rule rule;
};
constexpr std::array kTable = {
    Row{OpKind::embedding, embedding}, Row{OpKind::rms_norm, rms_norm},   Row{OpKind::linear, linear},
    Row{OpKind::rope, rope},           Row{OpKind::attention, attention}, Row{OpKind::swiglu, swiglu},
    Row{OpKind::add, add},             Row{OpKind::cross_entropy, cross_entropy}, Row{OpKind::loss_sum, loss_sum},
};

void reverse(Backward& backward, const Region& forward) {
  for (auto op = forward.ops.rbegin(); op != forward.ops.rend(); ++op) {
    const Row* row = nullptr;
    for (const Row& candidate : kTable)
      if (candidate.kind == op->kind) row = &candidate;
    if (!row) throw Failure(Exit::internal, std::string("no gradient rule for ") + name_of(op->kind));
    row->rule(backward, *op);
  }
}

/// lm_head and embed share a weight when tied: the head, which runs first, writes its gradient and the embedding adds.
bool embedding_gradient_is_fresh(const Graph& graph, const Region& embed, const Region& head) {
  const TensorId table = embed.ops.front().inputs[1];
  for (const Op& op : head.ops)
    if (op.kind == OpKind::linear && op.inputs[1] == table) return false;
  return graph.at(table).partner != kNone;
}

}  // namespace

Graph differentiate(Graph graph) {
  const Region embed = *graph.region("embed"), layer = *graph.region("layer_forward"), head = *graph.region("head");

  Region head_backward{.name = "head_backward", .part = Part::loss};
  Backward h(graph, head_backward, Scope::step);
  reverse(h, head);
  graph.dstream_final = h.of(graph.stream_final);

  Region layer_backward{.name = "layer_backward", .loop = Loop::layers_down, .part = Part::backward, .layers = layer.layers};
  Backward b(graph, layer_backward, Scope::layer);
  Tensor incoming = graph.at(graph.stream_out);
  incoming.name = "d_" + incoming.name;
  incoming.storage = kNone;
  graph.dstream_out = graph.add(incoming);
  b.seed(graph.stream_out, graph.dstream_out);
  reverse(b, layer);
  graph.dstream_in = b.of(graph.stream_in);

  Region embed_backward{.name = "embed_backward", .part = Part::backward};
  Backward e(graph, embed_backward, Scope::step);
  Tensor first = graph.at(embed.ops.front().outputs[0]);
  first.name = "d_" + first.name;
  first.storage = kNone;
  e.seed(embed.ops.front().outputs[0], graph.add(first));
  reverse(e, embed);
  if (embedding_gradient_is_fresh(graph, embed, head)) {
    const TensorId gradient = graph.at(embed.ops.front().inputs[1]).partner;
    embed_backward.ops.insert(embed_backward.ops.begin(),
                              Op{.kind = OpKind::zero, .name = "embed_zero", .inputs = {}, .outputs = {gradient}});
  }

  graph.region("head")->part = Part::loss;
  graph.regions.push_back(std::move(head_backward));
  graph.regions.push_back(std::move(layer_backward));
  graph.regions.push_back(std::move(embed_backward));
  return graph;
}

}  // namespace llmc::graph
