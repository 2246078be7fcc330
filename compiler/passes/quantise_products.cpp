#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/make.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "compiler/passes/quantise_by_block.h"
#include "compiler/passes/quantise_by_tensor.h"
#include "spec/targets.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// A tensor in e4m3: codes with one scale a row, or the numbers that they stand for. Of a transposed weight `scales`
/// are those of the weight's rows, and `ones` takes their place in the product. `shared`: the one scale of all rows.
struct Quantised {
  TensorId y = kNone, scales = kNone, ones = kNone, shared = kNone;
};

/// Gives the products of the layers' regions of one pass, or of the head's, quantised operands. Each operand is
/// quantised just before its first product. Regions of several variants share the tensors.
class Quantiser {
 public:
  /// codes: the target multiplies codes. full: weight gradients too. forward: that of the forward pass; null if this is
  /// it.
  Quantiser(Graph& graph, const Quantiser* forward, bool codes, bool full)
      : graph_(graph), forward_(forward), suffix_(forward ? "_back_e4m3" : "_e4m3"), codes_(codes), full_(full) {}

  std::vector<Op> rewrite(const Region& region) {
    emitted_.clear(), ops_.clear(), saved_ = region.saved;
    for (const Op& op : region.ops)
      if (ops::row_of(op.kind).multiplies == ops::Multiplies::dy_and_weight) weight_of_[op.inputs[0]] = op.inputs[1];
    for (Op op : region.ops) {
      switch (ops::row_of(op.kind).multiplies) {
        case ops::Multiplies::x_and_weight: give(op, rounded(op.inputs[0], kNone), rounded(op.inputs[1], kNone)); break;
        case ops::Multiplies::dy_and_weight: data_gradient(op); break;
        case ops::Multiplies::dy_and_x:
          if (full_) weight_gradient(op);
          break;
        case ops::Multiplies::no_operands: break;
      }
      ops_.push_back(std::move(op));
    }
    return std::move(ops_);
  }

  /// Quantises the operands of the head's products: the last norm's result and the weight once a micro-batch, with the
  /// norm; the logits' gradient, for dgrad, in each chunk. Weight gradients keep their operands.
  void rewrite_head(Region& head, const std::vector<Region*>& chunks, bool dgrad) {
    scope_ = Scope::step;
    ops_ = std::move(head.ops);
    const Op logits = chunks.front()->ops.front();
    const Quantised x = rounded(logits.inputs[0], kNone), weight = rounded(logits.inputs[1], kNone),
                    of_gradient = dgrad ? weight_of_gradient(logits.inputs[1]) : Quantised{};
    head.ops = std::move(ops_);
    for (Region* const region : chunks) {
      ops_.clear();
      for (Op op : region->ops) {
        const ops::Multiplies multiplies = ops::row_of(op.kind).multiplies;
        if (multiplies == ops::Multiplies::x_and_weight) give(op, x, weight);
        if (multiplies == ops::Multiplies::dy_and_weight && dgrad) give_gradient(op, of_gradient);
        ops_.push_back(std::move(op));
      }
      region->ops = std::move(ops_);
    }
  }

  /// Returns the tensors that the layer keeps for its backward pass after that was rewritten to `ops`: an operand that
  /// weight gradients alone read is kept as the forward pass has rounded it.
  std::vector<TensorId> saved(const std::vector<Op>& ops) const {
    std::set<TensorId> read;
    for (const Op& op : ops)
      for (const TensorId id : op.inputs) read.insert(graph_.storage(id));
    std::vector<TensorId> result;
    std::ranges::copy_if(saved_, std::back_inserter(result), [&](TensorId id) { return read.contains(id); });
    return result;
  }

 private:
  Quantised weight_of_gradient(TensorId weight) { return codes_ ? transposed(weight) : rounded(weight, kNone); }

  /// Both operands have the scales of tokens, over which the product sums: these become one. dy has the same codes as
  /// in the data gradient.
  void weight_gradient(Op& op) {
    const TensorId factors = weight_of_gradient(weight_of_.at(op.inputs[0])).scales;
    const Quantised dy = rounded(op.inputs[0], factors), x = of_forward_pass(op.inputs[1]);
    give(op, with_shared_scale(dy, factors), with_shared_scale(x, kNone));
  }

  /// Returns an operand of the forward pass: as that has rounded it, unless it is computed again.
  Quantised of_forward_pass(TensorId id) {
    if (std::ranges::find(saved_, graph_.storage(id)) == saved_.end()) return rounded(id, kNone);
    const Quantised kept = forward_->made_.at({id, kNone});
    for (const TensorId part : {kept.y, kept.scales})
      if (std::ranges::find(saved_, part) == saved_.end()) saved_.push_back(part);
    return kept;
  }

  /// The weight's scales, one for each term of the sum, are part of dy before that is rounded.
  void data_gradient(Op& op) { give_gradient(op, weight_of_gradient(op.inputs[1])); }

  void give_gradient(Op& op, const Quantised& weight) {
    const Quantised dy = rounded(op.inputs[0], weight.scales);
    give(op, dy, codes_ ? Quantised{.y = weight.y, .scales = weight.ones} : weight);
  }

  void give(Op& op, const Quantised& a, const Quantised& b) const {
    op.inputs[0] = a.y, op.inputs[1] = b.y;
    if (codes_) op.inputs.insert(op.inputs.begin() + 2, {a.scales, b.scales});
  }

  /// Returns tensor `id` with its columns multiplied by `factors`, if given, and rounded.
  Quantised rounded(TensorId id, TensorId factors) {
    Quantised& made = made_[{id, factors}];
    const Tensor x = graph_.at(id);
    const std::string name = x.name + suffix_;
    if (made.y == kNone) {
      made.y = graph_.add_rounded(id, name, codes_ ? DType::e4m3 : DType::bf16, scope_);
      // Scales of a weight whose codes are no operands are factors alone.
      const bool only_factors = !codes_ && x.role == Role::parameter;
      made.scales = vector(name + "_scales", x.rows, x.axis, only_factors ? DType::bf16 : DType::f32);
    }
    if (!emitted_.insert(made.y).second) return made;
    std::vector<TensorId> inputs = {id};
    if (factors != kNone) inputs.push_back(factors);
    ops_.push_back(ops::make::quantise(name, std::move(inputs), {made.y, made.scales}));
    return made;
  }

  Quantised transposed(TensorId id) {
    Quantised& made = transposed_[id];
    const Tensor w = graph_.at(id);
    const std::string name = w.name + "_transposed_e4m3";
    if (made.y == kNone) {
      made.y = graph_.add({.name = name,
                           .dtype = DType::e4m3,
                           .rows = w.cols,
                           .cols = w.rows,
                           .pitch = w.rows,
                           .scope = scope_,
                           .partner = id});
      made.scales = vector(name + "_scales", w.rows, Axis::other, DType::bf16);
      made.ones = vector(name + "_ones", w.cols, Axis::other);
    }
    if (!emitted_.insert(made.y).second) return made;
    ops_.push_back(ops::make::quantise_transposed(name, {id}, {made.y, made.scales, made.ones}));
    return made;
  }

  Quantised with_shared_scale(const Quantised& of, TensorId factors) {
    Quantised& made = shared_[of.y];
    const Tensor y = graph_.at(of.y);
    const std::string name = y.name + "_shared";
    if (made.y == kNone) {
      Tensor shared{.name = name,
                    .dtype = y.dtype,
                    .rows = y.rows,
                    .cols = y.cols,
                    .pitch = y.pitch,
                    .scope = scope_,
                    .axis = y.axis};
      if (codes_) shared.rows = y.cols, shared.cols = shared.pitch = y.rows, shared.axis = Axis::other;
      made.y = graph_.add(shared);
      made.shared = vector(name + "_scale", 1, Axis::other);
      if (codes_) made.scales = vector(name + "_scales", y.cols, Axis::other);
    }
    if (!emitted_.insert(made.y).second) return made;
    std::vector<TensorId> inputs = {of.y, of.scales}, outputs = {made.y, made.shared};
    if (factors != kNone) inputs.push_back(factors);
    if (codes_) outputs.push_back(made.scales);
    ops_.push_back(ops::make::share_scale(name, std::move(inputs), std::move(outputs)));
    return made;
  }

  TensorId vector(std::string name, std::int64_t length, Axis axis, DType dtype = DType::f32) {
    return graph_.add({.name = std::move(name),
                       .dtype = dtype,
                       .rows = 1,
                       .cols = length,
                       .pitch = length,
                       .scope = scope_,
                       .axis = axis});
  }

  Graph& graph_;
  const Quantiser* forward_;
  const char* suffix_;  // of names
  Scope scope_ = Scope::layer;
  bool codes_, full_;
  std::map<TensorId, TensorId> weight_of_;  // by dy: of the product with the same dy
  std::map<std::pair<TensorId, TensorId>, Quantised> made_;
  std::map<TensorId, Quantised> transposed_, shared_;
  std::set<TensorId> emitted_;   // in this region
  std::vector<TensorId> saved_;  // by the layer for its backward pass
  std::vector<Op> ops_;
};

/// Kind of the layers that the region computes.
const LayerKind& kind_of(const Graph& graph, const Region& region) {
  const auto layer = std::ranges::find(graph.variants, region.variant) - graph.variants.begin();
  return graph.kinds[static_cast<std::size_t>(layer)];
}

}  // namespace

Graph quantise_products(Graph graph, const spec::Spec& spec) {
  if (!spec.has_fp8_products()) return graph;
  const bool codes = spec::multiplies_codes(spec), full = spec.matmul == spec::Matmul::fp8_full;
  const auto is_rewritten = [&](const Region& region) {
    return region.block == Block::layer && region.trains() && !kind_of(graph, region).wide_products;
  };
  const auto rewrite_all = [&](auto forward, auto backward) {
    for (Region& region : graph.regions)
      if (is_rewritten(region)) region.ops = (region.is_backward() ? backward : forward).rewrite(region.ops);
  };
  const auto rewrite_head = [&](auto quantiser) {
    if (spec.fp8.head == spec::Fp8Head::off) return;
    std::vector<Region*> chunks = {&graph.region(Block::head, Part::loss)};
    if (const Region* evaluate = graph.find(Part::evaluate, Block::head))
      chunks.push_back(&graph.regions[graph.index_of(*evaluate)]);
    quantiser.rewrite_head(graph.region(Block::head, Part::forward), chunks,
                           spec.fp8.head == spec::Fp8Head::forward_dgrad);
  };
  if (spec.matmul == spec::Matmul::fp8_tensor) {
    rewrite_all(TensorQuantiser(graph, false, codes), TensorQuantiser(graph, true, codes));
    rewrite_head(TensorQuantiser(graph, false, codes));
    return graph;
  }
  if (spec.matmul == spec::Matmul::mxfp8) {
    rewrite_all(BlockQuantiser(graph, false, codes), BlockQuantiser(graph, true, codes));
    return graph;
  }
  Quantiser forward(graph, nullptr, codes, full), backward(graph, &forward, codes, full);
  for (Region& region : graph.regions)
    if (is_rewritten(region) && region.is_forward()) region.ops = forward.rewrite(region);
  for (Region& region : graph.regions) {
    if (!is_rewritten(region) || !region.is_backward()) continue;
    region.ops = backward.rewrite(region);
    const std::vector<TensorId> saved = backward.saved(region.ops);
    for (Region& twin : graph.regions)
      if (twin.is_twin(region)) twin.saved = saved;
  }
  rewrite_head(Quantiser(graph, nullptr, codes, false));
  return graph;
}

}  // namespace llmc::passes
