#include "compiler/plan/layout.h"

#include <algorithm>
#include <set>

#include "compiler/plan/packing.h"
#include "error.h"

namespace llmc::plan {

using namespace graph;

namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::int64_t kMostInputSlots = 16;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class LayoutMaker {
 public:
  LayoutMaker(const Graph& graph, const ParameterLayout& parameters, const spec::Spec& spec, std::int64_t micro_batches,
              std::size_t math_workspace)
      : g_(graph), p_(parameters), spec_(spec), micro_batches_(micro_batches), math_workspace_(math_workspace) {
    layout_.regions.resize(graph.regions.size());
  }

  Layout make() {
    place_weights();
    place_host_data();
    place_stream();
    place_slabs();
    place_transients();
    place_optimizer_state();
    layout_.arena.bytes = at_;
    return std::move(layout_);
  }

 private:
  std::size_t take(std::size_t bytes) {
    const std::size_t offset = at_;
    at_ += aligned(bytes);
    return offset;
  }

  /// Ends a section that began at `begin`.
  void section(std::string name, std::size_t begin, std::string what) {
    layout_.sections.push_back({std::move(name), begin, at_ - begin, std::move(what)});
  }

  void place_weights() {
    const auto elements = static_cast<std::size_t>(p_.elements);
    ArenaLayout& a = layout_.arena;
    std::size_t begin = at_;
    a.masters = take(elements * 4);
    section("master weights", begin, "fp32");
    begin = at_;
    if (spec_.compute != DType::f32) {
      a.copies = take(static_cast<std::size_t>(bytes_of(spec_.compute, p_.elements)));
      section("weight copies", begin, std::string(name_of(spec_.compute)) + ", what matrix products read");
    } else {
      a.copies = a.masters;
    }
    begin = at_;
    a.gradients = take(elements * 4);
    section("gradients", begin, "fp32, accumulated over micro-batches");
  }

  void place_host_data() {
    const std::size_t begin = at_;
    ArenaLayout& a = layout_.arena;
    const HostTensors& host = g_.host;
    const auto fixed = [&](TensorId id) {
      const std::size_t offset = take(static_cast<std::size_t>(g_.at(id).bytes()));
      layout_.fixed[id] = {offset, 0};
      return offset;
    };
    a.results = take(sizeof(StepResults));
    a.inputs = at_;
    a.scalars = take(sizeof(StepScalars));
    a.tokens = fixed(host.tokens);
    a.targets = fixed(host.targets);
    a.embedding_order = fixed(host.embedding_order);
    a.run_begin = fixed(host.run_begin);
    a.run_token = fixed(host.run_token);
    a.run_count = fixed(host.run_count);
    a.input_bytes = at_ - a.inputs;
    a.positions = fixed(host.positions);
    a.rope_table = fixed(host.rope_table);
    a.sample_logits = fixed(host.sample_logits);
    a.chunks = take(static_cast<std::size_t>(p_.chunk_count) * sizeof(Chunk));
    a.first_chunk = take((p_.slices.size() + 1) * sizeof(std::int32_t));
    a.init_rules = take(p_.slices.size() * sizeof(InitRule));
    a.parameter_norms = take(p_.slices.size() * 3 * sizeof(float));
    if (host.parameter_norms != kNone) layout_.fixed[host.parameter_norms] = {a.parameter_norms, 0};
    section("step inputs and tables", begin, "tokens, targets, RoPE table, optimizer chunks, results");
    if (spec_.target.kind == spec::TargetKind::cuda) {
      const std::size_t workspace = at_;
      a.math_workspace = take(math_workspace_);
      a.math_workspace_bytes = math_workspace_;
      section("matrix-product workspace", workspace, "cuBLASLt: partial sums of products that split k");
      // This step's and the next one's. With many micro-batches the host is far enough ahead with fewer.
      const std::size_t slots = at_;
      a.input_slot_count = static_cast<std::size_t>(std::min<std::int64_t>(2 * micro_batches_, kMostInputSlots));
      a.input_slots = take(a.input_slot_count * a.input_bytes);
      section("inputs on their way", slots, "two steps' micro-batches, filled by a copy stream");
    }
  }

  /// x[0] .. x[layers]: what each layer reads; a layer writes the next one's.
  void place_stream() {
    const std::size_t begin = at_;
    const ResidualStream& stream = g_.stream;
    const auto bytes = static_cast<std::size_t>(g_.at(stream.below).bytes());
    const std::size_t stride = aligned(bytes);
    take(stride * static_cast<std::size_t>(g_.layers() + 1));
    layout_.fixed[stream.first] = {begin, 0};
    layout_.fixed[stream.below] = {begin, stride};
    layout_.fixed[stream.above] = {begin + stride, stride};
    layout_.fixed[stream.last] = {begin + stride * static_cast<std::size_t>(g_.layers()), 0};
    section("residual stream", begin,
            std::string(name_of(g_.at(stream.below).dtype)) + ", one a layer, kept for the backward pass");
  }

  /// Places of a kept tensor are the same in the forward and the backward region of its layers.
  void place_slabs() {
    const std::size_t begin = at_;
    for (std::size_t r = 0; r < g_.regions.size(); ++r) {
      const Region& region = g_.regions[r];
      if (region.loop != Loop::layers_up) continue;
      std::size_t slab = 0;
      std::map<TensorId, Place> places;
      for (TensorId id : region.saved) {
        if (layout_.fixed.count(id)) continue;
        places[id].offset = slab;
        slab += aligned(static_cast<std::size_t>(g_.at(id).bytes()));
      }
      // A variant's slabs are indexed by the layer's rank among the layers of that variant.
      const std::size_t base = take(slab * static_cast<std::size_t>(g_.layers_of(region)));
      for (auto& [id, place] : places) place = {base + place.offset, slab};
      for (std::size_t other = 0; other < g_.regions.size(); ++other) {
        if (region.is_twin(g_.regions[other])) layout_.regions[other].insert(places.begin(), places.end());
      }
    }
    section("kept activations", begin, "what the backward pass reads, one slab a layer");
  }

  /// Order of regions on the time line. Evaluation and sampling branch off after the forward pass.
  static int stage(Part part) {
    switch (part) {
      case Part::forward:
        return 0;
      case Part::evaluate:
        return 1;
      case Part::sample:
        return 2;
      case Part::loss:
        return 3;
      case Part::backward:
        return 4;
      case Part::optimizer:
        return 5;
      case Part::initialise:
        return 6;
      case Part::refresh:
        return 7;
    }
    return 8;
  }

  struct Use {
    int first = 0, last = 0;                // op positions
    int region_first = 0, region_last = 0;  // positions of whole regions
    std::set<std::size_t> regions;
  };

  void place_transients() {
    const std::size_t begin = at_;
    std::vector<std::size_t> order(g_.regions.size());
    for (std::size_t r = 0; r < order.size(); ++r) order[r] = r;
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return stage(g_.regions[a].part) < stage(g_.regions[b].part);
    });

    // What lives in one region only has the life of its ops; what crosses regions lives through all of them, since
    // loops come back. Tensors of a layer that nothing keeps are new in each region.
    std::map<std::pair<TensorId, std::size_t>, Use> uses;  // (buffer, region or SIZE_MAX)
    int position = 0;
    for (std::size_t r : order) {
      const Region& region = g_.regions[r];
      const int region_first = position, region_last = position + static_cast<int>(region.ops.size()) - 1;
      for (const Op& op : region.ops) {
        for (const auto* list : {&op.inputs, &op.outputs})
          for (TensorId id : *list) {
            const TensorId buffer = g_.buffer(id);
            if (!is_transient(buffer, r)) continue;
            const bool local = g_.at(buffer).scope == Scope::layer;
            auto [use, fresh] = uses.try_emplace({buffer, local ? r : SIZE_MAX});
            Use& u = use->second;
            if (fresh) u.first = position, u.region_first = region_first;
            u.last = position;
            u.region_last = region_last;
            u.regions.insert(r);
          }
        ++position;
      }
    }

    std::vector<Item> items;
    for (const auto& [key, use] : uses) {
      const bool crosses = use.regions.size() > 1;
      items.push_back({static_cast<std::size_t>(g_.at(key.first).bytes()), crosses ? use.region_first : use.first,
                       crosses ? use.region_last : use.last, 0});
    }
    const Packing packing = pack(items, kAlignment);
    take(packing.bytes);
    layout_.transient_bytes = packing.bytes;
    layout_.transient_bound = packing.bound;
    std::size_t i = 0;
    for (const auto& [key, use] : uses) {
      for (std::size_t r : use.regions) layout_.regions[r][key.first] = {begin + items[i].offset, 0};
      ++i;
    }
    section("transients", begin, "packed by lifetime");
  }

  bool is_transient(TensorId buffer, std::size_t region) const {
    const Tensor& t = g_.at(buffer);
    if (t.role != Role::activation || layout_.fixed.count(buffer)) return false;
    const auto& saved = g_.regions[region].saved;
    return std::find(saved.begin(), saved.end(), buffer) == saved.end();
  }

  void place_optimizer_state() {
    const std::size_t begin = at_, bytes = static_cast<std::size_t>(p_.elements) * 4;
    layout_.arena.exp_avg = take(bytes);
    layout_.arena.exp_avg_sq = take(bytes);
    section("optimizer state", begin, "AdamW's two moments, fp32");
  }

  const Graph& g_;
  const ParameterLayout& p_;
  const spec::Spec& spec_;
  const std::int64_t micro_batches_;
  const std::size_t math_workspace_;
  Layout layout_;
  std::size_t at_ = 0;
};

}  // namespace

const Place& Layout::find(const Graph& graph, std::size_t region, TensorId tensor) const {
  const TensorId buffer = graph.buffer(tensor);
  for (TensorId id : {tensor, buffer})
    if (const auto place = fixed.find(id); place != fixed.end()) return place->second;
  const auto place = regions.at(region).find(buffer);
  if (place == regions.at(region).end())
    throw Failure(Exit::internal,
                  "no memory was planned for %" + graph.at(tensor).name + " in region " + graph.regions[region].name);
  return place->second;
}

Layout lay_out(const Graph& graph, const ParameterLayout& parameters, const spec::Spec& spec,
               std::int64_t micro_batches) {
  Layout layout = LayoutMaker(graph, parameters, spec, micro_batches, kTunedWorkspace).make();
  if (layout.arena.bytes <= static_cast<std::size_t>(spec.memory.budget)) return layout;
  return LayoutMaker(graph, parameters, spec, micro_batches, kUntunedWorkspace).make();
}

}  // namespace llmc::plan
