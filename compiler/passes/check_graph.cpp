#include "compiler/passes/check_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "compiler/ops/graph_text.h"
#include "compiler/ops/op.h"
#include "error.h"

namespace llmc::passes {

using namespace graph;

namespace {

class GraphChecker {
 public:
  GraphChecker(const Graph& graph, const std::string& pass) : g_(graph), pass_(pass) {}

  void run() {
    for (const Region& region : g_.regions) check_region(region);
    check_gradients();
    check_copies();
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    const std::string at = op_ ? fmt::format(", region {}, op `{}`", region_->name, ops::to_text(g_, *op_)) : "";
    throw Failure(Exit::internal, fmt::format("graph is malformed after pass {}{}: {}", pass_, at, what));
  }

  void check_region(const Region& region) {
    region_ = &region;
    std::set<std::string> names;
    std::map<TensorId, TensorId> holder;  // buffer -> the tensor that it holds now
    for (const Op& op : region.ops) {
      op_ = &op;
      if (!names.insert(op.label()).second) fail("the name is taken in this region");
      try {
        ops::row_of(op.kind).signature(ops::Operands{g_, region, op});
      } catch (const ops::Malformed& malformed) {
        fail(malformed.what());
      } catch (const Failure& refused) {
        fail(refused.what());
      }
      for (TensorId id : op.inputs) {
        const Tensor& t = g_.at(id);
        if (t.role != Role::activation) continue;
        const TensorId buffer = g_.storage(id);
        if (const auto held = holder.find(buffer); held != holder.end()) {
          if (held->second != id)
            fail(fmt::format("reads %{}, which %{} has overwritten", t.name, g_.at(held->second).name));
        } else if (!from_outside(region, id)) {
          fail(fmt::format("reads %{} before it is written", t.name));
        }
      }
      for (TensorId id : op.outputs) {
        const Tensor& t = g_.at(id);
        if (!may_write(t)) fail(fmt::format("writes %{}", t.name));
        if (t.role == Role::gradient) touched_.insert(id);
        holder[g_.storage(id)] = id;
      }
    }
    op_ = nullptr;
    for (const auto& [buffer, tensor] : holder) {
      written_.insert(buffer);
      (void)tensor;
    }
  }

  static bool may_write(const Tensor& t) {
    switch (t.role) {
      case Role::activation:
      case Role::rounded:
      case Role::gradient:
      case Role::output:
      case Role::flat:
      case Role::wire:
      case Role::bucket: return true;
      case Role::copy:
      case Role::parameter:  // parts of flat buffers
      case Role::constant:
      case Role::input: break;
    }
    return false;
  }

  /// Whether a region may read a tensor that it has not written: the stream, a result of an earlier region, or a tensor
  /// that a layer kept.
  bool from_outside(const Region& region, TensorId id) const {
    const TensorId buffer = g_.storage(id);
    if (g_.at(buffer).scope == Scope::boundary) return true;
    if (!written_.count(buffer)) return false;
    if (region.loop == Loop::layers_down && !region.saved.empty())
      return std::find(region.saved.begin(), region.saved.end(), buffer) != region.saved.end();
    return true;
  }

  void check_gradients() const {
    if (std::ranges::none_of(g_.regions, &Region::is_backward)) return;  // not differentiated yet
    for (const Tensor& t : g_.tensors)
      if (t.role == Role::parameter && !touched_.count(t.partner)) fail("nothing writes the gradient of %" + t.name);
  }

  /// A copy has its weight's offset, in the flat buffer of its dtype.
  void check_copies() const {
    for (const Tensor& t : g_.tensors) {
      if (t.role != Role::copy) continue;
      const Tensor& weight = g_.at(t.partner);
      if (weight.role != Role::parameter || weight.rows != t.rows || weight.cols != t.cols || weight.pitch != t.pitch)
        fail(fmt::format("%{} is not a copy of %{}", t.name, weight.name));
      const bool made = std::any_of(g_.tensors.begin(), g_.tensors.end(), [&](const Tensor& flat) {
        return flat.use == copies_use(t.dtype) && flat.dtype == t.dtype;
      });
      if (!made) fail(fmt::format("nothing produces %{}", t.name));
    }
  }

  const Graph& g_;
  std::string pass_;
  const Region* region_ = nullptr;
  const Op* op_ = nullptr;
  std::set<TensorId> written_, touched_;
};

}  // namespace

void check_graph(const Graph& graph, const std::string& after_pass) { GraphChecker(graph, after_pass).run(); }

}  // namespace llmc::passes
