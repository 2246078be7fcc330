#include <algorithm>

#include "compiler/ops/make.h"
#include "compiler/ops/op.h"
#include "compiler/passes/passes.h"
#include "error.h"

namespace llmc::passes {

using namespace graph;

namespace {

class Splitter {
 public:
  explicit Splitter(Graph graph)
      : g_(std::move(graph)), masters_(g_.host(Use::masters)), copies_(g_.host(Use::copies)) {
    for (std::size_t i = 0; i < g_.groups.size(); ++i)
      (g_.groups[i].role == ParameterRole::vectors ? whole_ : split_) |= GroupSet{1} << i;
  }

  Graph run() {
    g_.at(masters_).groups = whole_;
    rest_ = flat("rest", DType::rest, Use::rest);
    ties_ = flat("ties", DType::tie, Use::ties);
    for (Region& region : g_.regions) {
      for (Op& op : region.ops) read_parts(op);
      if (region.is_optimizer()) update(region);
    }
    convert();
    return std::move(g_);
  }

 private:
  TensorId flat(const char* name, DType type, Use use) {
    return g_.add({.name = name, .dtype = type, .rows = 1, .cols = 1, .role = Role::flat, .use = use});
  }

  /// A parameter's part of one of the flat buffers.
  TensorId part(TensorId weight, DType type) {
    for (std::size_t i = 0; i < g_.tensors.size(); ++i)
      if (g_.tensors[i].role == Role::copy && g_.tensors[i].partner == weight && g_.tensors[i].dtype == type)
        return static_cast<TensorId>(i);
    return g_.add_copy(weight, type);
  }

  /// An op that reads a matrix in fp32 reads its parts.
  void read_parts(Op& op) {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId weight = op.inputs[i];
      const Tensor& t = g_.at(weight);
      if (t.role != Role::parameter || !holds(split_, t.pieces[0].group)) continue;
      if (!ops::row_of(op.kind).reads_split)
        throw Failure(Exit::internal, "op " + op.label() + " reads a matrix in fp32, which is split");
      op.inputs[i] = part(weight, DType::bf16);
      const TensorId others[] = {part(weight, DType::rest), part(weight, DType::tie)};
      op.inputs.insert(op.inputs.begin() + static_cast<std::ptrdiff_t>(i) + 1, std::begin(others), std::end(others));
      return;
    }
  }

  /// An update of both kinds of masters becomes one of each.
  void update(Region& region) {
    std::vector<Op> all;
    for (Op& op : region.ops) {
      if (!ops::row_of(op.kind).updates_weights) {
        all.push_back(std::move(op));
        continue;
      }
      const GroupSet groups = op.as<ops::UpdateAttributes>().groups;
      if (groups & split_) {
        Op own = op;
        own.name += "_split";
        own.as<ops::UpdateAttributes>().groups = groups & split_;
        own.as<ops::UpdateAttributes>().split = true;
        std::ranges::replace(own.inputs, masters_, rest_);
        own.outputs.insert(own.outputs.begin() + 1, ties_);
        all.push_back(std::move(own));
      }
      if (groups & whole_) {
        op.as<ops::UpdateAttributes>().groups = groups & whole_;
        all.push_back(std::move(op));
      }
    }
    region.ops = std::move(all);
  }

  /// The host and the initial weights' kernel see masters in fp32, where the gradients are between steps.
  void convert() {
    const TensorId whole = g_.host(Use::gradients), chunks = g_.host(Use::chunks);
    for (Region& region : g_.regions)
      for (Op& op : region.ops) {
        std::ranges::replace(op.outputs, masters_, whole);
        if (std::ranges::count(op.inputs, masters_) && op.outputs == std::vector{copies_})
          op = ops::make::split_masters("split_masters", {whole, chunks}, {masters_, copies_, rest_, ties_});
      }
    g_.regions.push_back(
        join_region({ops::make::join_masters("join_masters", {masters_, copies_, rest_, ties_, chunks}, {whole})}));
  }

  Graph g_;
  const TensorId masters_, copies_;
  TensorId rest_ = kNone, ties_ = kNone;
  GroupSet split_ = 0, whole_ = 0;  // groups by the kind of their masters
};

}  // namespace

Graph split_masters(Graph graph, const spec::Spec& spec) {
  return spec.master == spec::Masters::split ? Splitter(std::move(graph)).run() : graph;
}

}  // namespace llmc::passes
