#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ops/make.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "spec/targets.h"

namespace llmc::passes {

using namespace graph;

namespace {

/// A tensor in e4m3: codes with one scale a row, or the numbers that they stand for. Of a transposed weight `scales`
/// are those of the weight's rows, and `ones` takes their place in the product.
struct Quantised {
  TensorId y = kNone, scales = kNone, ones = kNone;
};

/// Gives the products of a layer's region quantised operands. Each operand is quantised just before its first product.
class Quantiser {
 public:
  Quantiser(Graph& graph, bool codes) : graph_(graph), codes_(codes) {}

  std::vector<Op> rewrite(const std::vector<Op>& ops) {
    for (Op op : ops) {
      switch (ops::row_of(op.kind).multiplies) {
        case ops::Multiplies::x_and_weight:
          give(op, rounded(op.inputs[0], kNone, op), rounded(op.inputs[1], kNone, op));
          break;
        case ops::Multiplies::dy_and_weight: data_gradient(op); break;
        case ops::Multiplies::no_operands:
        case ops::Multiplies::dy_and_x: break;
      }
      ops_.push_back(std::move(op));
    }
    return std::move(ops_);
  }

 private:
  /// The weight's scales, one for each term of the sum, are part of dy before that is rounded.
  void data_gradient(Op& op) {
    const Quantised weight = codes_ ? transposed(op.inputs[1], op) : rounded(op.inputs[1], kNone, op);
    const Quantised dy = rounded(op.inputs[0], weight.scales, op);
    give(op, dy, codes_ ? Quantised{.y = weight.y, .scales = weight.ones} : weight);
  }

  void give(Op& op, const Quantised& a, const Quantised& b) const {
    op.inputs[0] = a.y, op.inputs[1] = b.y;
    if (codes_) op.inputs.insert(op.inputs.begin() + 2, {a.scales, b.scales});
  }

  /// Returns tensor `id` with its columns multiplied by `factors`, if given, and rounded.
  Quantised rounded(TensorId id, TensorId factors, const Op& product) {
    Quantised& made = made_[{id, factors}];
    if (made.y != kNone) return made;
    const Tensor x = graph_.at(id);
    const std::string name = fresh(product, x);
    made.y = graph_.add({.name = name,
                         .dtype = codes_ ? DType::e4m3 : DType::bf16,
                         .rows = x.rows,
                         .cols = x.cols,
                         .pitch = x.pitch,
                         .axis = x.axis,
                         .partner = x.role == Role::parameter ? id : kNone});
    made.scales = vector(name + "_scales", x.rows, x.axis);
    std::vector<TensorId> inputs = {id};
    if (factors != kNone) inputs.push_back(factors);
    ops_.push_back(ops::make::quantise(name, std::move(inputs), {made.y, made.scales}));
    return made;
  }

  Quantised transposed(TensorId id, const Op& product) {
    Quantised& made = transposed_[id];
    if (made.y != kNone) return made;
    const Tensor w = graph_.at(id);
    const std::string name = fresh(product, w);
    made.y = graph_.add(
        {.name = name, .dtype = DType::e4m3, .rows = w.cols, .cols = w.rows, .pitch = w.rows, .partner = id});
    made.scales = vector(name + "_scales", w.rows, Axis::other);
    made.ones = vector(name + "_ones", w.cols, Axis::other);
    ops_.push_back(ops::make::quantise_transposed(name, {id}, {made.y, made.scales, made.ones}));
    return made;
  }

  TensorId vector(std::string name, std::int64_t length, Axis axis) {
    return graph_.add({.name = std::move(name), .rows = 1, .cols = length, .pitch = length, .axis = axis});
  }

  /// Returns a name for the op that quantises `x` for this product.
  static std::string fresh(const Op& product, const Tensor& x) {
    return product.label() + (x.role == Role::parameter ? "_weight" : "_input") + "_e4m3";
  }

  Graph& graph_;
  bool codes_;
  std::map<std::pair<TensorId, TensorId>, Quantised> made_;
  std::map<TensorId, Quantised> transposed_;
  std::vector<Op> ops_;
};

/// Kind of the layers that the region computes.
const LayerKind& kind_of(const Graph& graph, const Region& region) {
  const auto layer = std::ranges::find(graph.variants, region.variant) - graph.variants.begin();
  return graph.kinds[static_cast<std::size_t>(layer)];
}

}  // namespace

Graph quantise_products(Graph graph, const spec::Spec& spec) {
  if (spec.matmul != spec::Matmul::fp8) return graph;
  for (std::size_t i = 0; i < graph.regions.size(); ++i) {
    const Region& region = graph.regions[i];
    if (region.block != Block::layer || !region.trains() || kind_of(graph, region).wide_products) continue;
    std::vector<Op> ops = Quantiser(graph, spec::has_row_scaled_products(spec.target)).rewrite(region.ops);
    graph.regions[i].ops = std::move(ops);
  }
  return graph;
}

}  // namespace llmc::passes
