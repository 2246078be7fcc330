#include "compiler/graph/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "error.h"

namespace llmc::graph {
namespace {

class Verifier {
 public:
  Verifier(const Graph& graph, const std::string& pass) : g_(graph), pass_(pass) {}

  void run() {
    for (const Region& region : g_.regions) check_region(region);
    check_gradients();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string at = op_ ? fmt::format(", region {}, op `{}`", region_->name, to_text(g_, *op_)) : "";
    throw Failure(Exit::internal, fmt::format("graph is malformed after pass {}{}: {}", pass_, at, what));
  }

  void expect(bool good, const std::string& what) const {
    if (!good) fail(what);
  }

  const Tensor& in(std::size_t i) const { return g_.at(op_->inputs.at(i)); }
  const Tensor& out(std::size_t i) const { return g_.at(op_->outputs.at(i)); }

  void count(std::size_t inputs, std::size_t outputs) const {
    expect(op_->inputs.size() == inputs && op_->outputs.size() == outputs,
           fmt::format("takes {} inputs and {} outputs", inputs, outputs));
  }

  void same_shape(const Tensor& a, const Tensor& b) const {
    expect(a.rows == b.rows && a.cols == b.cols,
           fmt::format("%{} is [{}, {}] but %{} is [{}, {}]", a.name, a.rows, a.cols, b.name, b.rows, b.cols));
  }

  /// In a loss chunk an op sees `chunk_rows` rows of a tensor that has one row a token.
  std::int64_t rows(const Tensor& t) const {
    return region_->loop == Loop::loss_chunks && t.rows == g_.tokens() ? g_.chunk_rows : t.rows;
  }

  void product(const Tensor& a_rows, std::int64_t m, std::int64_t n, const Tensor& d) const {
    expect(rows(a_rows) == m || rows(d) == m, fmt::format("%{} has {} rows, not {}", d.name, rows(d), m));
    expect(rows(d) == m && d.cols == n, fmt::format("result %{} is [{}, {}], not [{}, {}]", d.name, rows(d), d.cols, m, n));
  }

  /// Operand order of every kind of op, and what must be equal to what.
  void check_signature() const {
    const std::size_t extra = op_->residual + op_->bias, also = op_->recompute;
    const std::int64_t qkv_width = (g_.heads + 2 * g_.kv_heads) * g_.head_dim;
    switch (op_->kind) {
      case OpKind::embedding:  // tokens, table -> x
        count(2, 1);
        expect(out(0).rows == g_.tokens() && in(1).cols == out(0).cols, "one row of the table for each token");
        break;
      case OpKind::rms_norm:  // x, weight -> y, rstd
        count(2, 2);
        same_shape(in(0), out(0));
        expect(in(1).cols == in(0).cols && out(1).cols == in(0).rows, "one weight a column, one rstd a row");
        break;
      case OpKind::linear:  // x, weight, [bias], [residual] -> y
        count(2 + extra, 1);
        expect(in(0).cols == in(1).cols, "x and weight differ in width");
        product(in(0), rows(in(0)), in(1).rows, out(0));
        if (op_->bias) expect(in(2).cols == in(1).rows, "one bias a row of the weight");
        if (op_->residual) {
          const Tensor& c = g_.at(op_->inputs.back());
          same_shape(c, out(0));
          expect(c.dtype == out(0).dtype, fmt::format("%{} and %{} differ in dtype", c.name, out(0).name));
        }
        break;
      case OpKind::rope:           // qkv, table -> qkv
      case OpKind::rope_backward:  // dqkv, table -> dqkv
        count(2, 1);
        same_shape(in(0), out(0));
        expect(in(0).cols == qkv_width && in(1).cols == g_.head_dim, "rows of q, k, v heads and a table of one head");
        break;
      case OpKind::attention:  // qkv -> out, lse
        count(1, 2);
        expect(in(0).cols == qkv_width && out(0).cols == g_.heads * g_.head_dim, "packed q, k, v in, heads out");
        break;
      case OpKind::attention_backward:  // dout, out, qkv, lse -> dqkv, workspace
        count(4, 2);
        same_shape(in(0), in(1));
        same_shape(in(2), out(0));
        break;
      case OpKind::swiglu:  // gate_up -> s
        count(1, 1);
        expect(in(0).cols >= 2 * out(0).cols, "gate and up side by side");
        break;
      case OpKind::swiglu_backward:  // ds, gate_up -> dgate_up, [s]
        count(2, 1 + also);
        same_shape(in(1), out(0));
        break;
      case OpKind::add:  // a, b -> a + b
        count(2, 1);
        same_shape(in(0), in(1));
        same_shape(in(0), out(0));
        break;
      case OpKind::cross_entropy:  // logits, targets -> losses
        count(2, 1);
        expect(in(1).cols == g_.tokens() && out(0).cols == g_.tokens(), "one target and one loss a token");
        break;
      case OpKind::cross_entropy_backward:  // logits, targets -> dlogits
        count(2, 1);
        same_shape(in(0), out(0));
        break;
      case OpKind::loss_sum: count(1, 1); break;                 // losses -> loss
      case OpKind::gather_rows: count(2, 1); break;              // x, rows -> y
      case OpKind::embedding_backward: count(5, 1); break;       // dx, order, run_begin, run_token, run_count -> dtable
      case OpKind::rms_norm_backward:                            // dy, x, weight, rstd, [dresidual] -> dx, dweight, [y]
        count(4 + extra, 2 + also);
        same_shape(in(0), in(1));
        same_shape(in(1), out(0));
        break;
      case OpKind::linear_dgrad:  // dy, weight -> dx
        count(2, 1);
        expect(in(0).cols == in(1).rows, "dy and weight differ in width");
        product(in(0), rows(in(0)), in(1).cols, out(0));
        break;
      case OpKind::linear_wgrad:  // dy, x -> dweight
        count(2, 1);
        expect(rows(in(0)) == rows(in(1)), "dy and x differ in rows");
        expect(out(0).rows == in(0).cols && out(0).cols == in(1).cols, "dweight is [columns of dy, columns of x]");
        expect(out(0).dtype == DType::f32, "weight gradients accumulate in fp32");
        break;
      case OpKind::column_sum: count(1, 1); break;     // dy -> sums (or partial sums)
      case OpKind::column_reduce:  // partial sums -> gradient, or fewer partial sums
        count(1, 1);
        expect(in(0).rows % out(0).rows == 0 && in(0).cols == out(0).cols, "adds up whole groups of rows");
        break;
      case OpKind::zero: count(0, 1); break;
      case OpKind::gradient_norm: count(0, 1); break;  // -> partial sums of squares
      case OpKind::gradient_clip: count(1, 1); break;  // partial -> scale
      case OpKind::initialise: expect(op_->inputs.empty(), "draws from the seed alone"); break;  // -> parameters
      case OpKind::cast:  // parameters -> their copies, one after the other
        expect(!op_->inputs.empty() && op_->inputs.size() == op_->outputs.size(), "one copy a parameter");
        for (std::size_t i = 0; i < op_->inputs.size(); ++i) {
          same_shape(in(i), out(i));
          expect(out(i).partner == op_->inputs[i], fmt::format("%{} is no copy of %{}", out(i).name, in(i).name));
        }
        break;
      case OpKind::adamw: expect(op_->inputs.size() == 1, "takes the clip scale"); break;
      case OpKind::parameter_norms: count(3, 1); break;
    }
  }

  void check_region(const Region& region) {
    region_ = &region;
    std::set<std::string> names;
    std::map<TensorId, TensorId> holder;  // buffer -> the tensor that it holds now
    for (const Op& op : region.ops) {
      op_ = &op;
      expect(names.insert(op.name).second, "the name is taken in this region");
      check_signature();
      for (TensorId id : op.inputs) {
        const Tensor& t = g_.at(id);
        if (t.role != Role::activation) continue;
        const TensorId buffer = g_.storage(id);
        if (const auto held = holder.find(buffer); held != holder.end())
          expect(held->second == id, fmt::format("reads %{}, which %{} has overwritten", t.name, g_.at(held->second).name));
        else
          expect(from_outside(region, id), fmt::format("reads %{} before it is written", t.name));
      }
      for (TensorId id : op.outputs) {
        const Tensor& t = g_.at(id);
        expect(t.role == Role::activation || t.role == Role::gradient || (t.role == Role::copy && op.kind == OpKind::cast) ||
                   (t.role == Role::parameter && op.kind == OpKind::initialise), fmt::format("writes %{}", t.name));
        if (t.role == Role::gradient) touched_.insert(id);
        holder[g_.storage(id)] = id;
      }
      if (op.gradient) holder[g_.storage(op.inputs[0])] = op.inputs[0];
    }
    op_ = nullptr;
    for (const auto& [buffer, tensor] : holder) {
      written_.insert(buffer);
      (void)tensor;
    }
  }

  /// Whether a region may read what it has not written: the stream, what an earlier region made, what a layer kept.
  bool from_outside(const Region& region, TensorId id) const {
    const TensorId buffer = g_.storage(id);
    for (TensorId stream : {g_.stream_in, g_.stream_final, g_.dstream_out, g_.dstream_final, g_.find("d_x_first")})
      if (stream != kNone && g_.storage(stream) == buffer) return true;
    if (!written_.count(buffer)) return false;
    if (region.loop == Loop::layers_down && !region.saved.empty())
      return std::find(region.saved.begin(), region.saved.end(), buffer) != region.saved.end();
    return true;
  }

  void check_gradients() const {
    const bool differentiated = std::any_of(g_.regions.begin(), g_.regions.end(),
                                            [](const Region& r) { return r.part == Part::backward; });
    if (!differentiated) return;
    for (const Tensor& t : g_.tensors)
      if (t.role == Role::parameter && !touched_.count(t.partner)) fail("nothing writes the gradient of %" + t.name);
  }

  const Graph& g_;
  std::string pass_;
  const Region* region_ = nullptr;
  const Op* op_ = nullptr;
  std::set<TensorId> written_, touched_;
};

}  // namespace

void verify(const Graph& graph, const std::string& after_pass) { Verifier(graph, after_pass).run(); }

}  // namespace llmc::graph
