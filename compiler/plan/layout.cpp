#include "compiler/plan/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>

#include "compiler/plan/packing.h"
#include "compiler/plan/schedule_walk.h"
#include "error.h"
#include "text/plural.h"

namespace llmc::plan {

using namespace graph;

namespace {

constexpr std::size_t kAlignment = kArenaAlignment;
constexpr std::int64_t kMostInputSlots = 16;

std::size_t aligned(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

class LayoutMaker {
 public:
  LayoutMaker(const Graph& graph, const Schedule& schedule, const spec::Spec& spec, const ParameterLayout& parameters,
              std::int64_t micro_batches, std::size_t math_workspace)
      : g_(graph),
        schedule_(schedule),
        spec_(spec),
        parameters_(parameters),
        micro_batches_(micro_batches),
        math_workspace_(math_workspace) {
    layout_.regions.resize(graph.regions.size());
    layout_.region_kept.resize(graph.regions.size());
  }

  ArenaLayout make() {
    const FlatSection kFlat[] = {
        {"master weights", Use::masters, spec_.master == spec::Masters::split ? "fp32: norms, biases" : "fp32"},
        {"weight copies", Use::copies, std::string(name_of(spec_.compute)) + ", what matrix products read"},
        {"rest of masters", Use::rest, "16 bits, which bf16 copies lack of the fp32 masters of matrices"},
        {"ties of masters", Use::ties, "a bit each: the copy was rounded up from the middle of two bf16"},
        {"gradients", Use::gradients, "fp32, accumulated over micro-batches"},
        {"optimizer state", Use::state, optimizer_state_text()},
        {"optimizer state of rows", Use::row_state, "fp32, a second moment of each neuron"}};
    const auto is_shared = [this](const FlatSection& flat) { return is_sharded(flat.use, spec_.parallel.shard); };
    for (const FlatSection& flat : kFlat)
      if (!is_shared(flat)) place_flat(flat);
    place_rounded();
    place_host_data();
    place_stream();
    place_slabs();
    place_transients();
    for (const FlatSection& flat : kFlat)
      if (is_shared(flat)) place_shares(flat);
    place_windows();
    layout_.bytes = at_;
    return std::move(layout_);
  }

 private:
  std::size_t take(std::size_t bytes) {
    const std::size_t offset = at_;
    at_ += aligned(bytes);
    return offset;
  }

  /// "AdamW's two moments, fp32"; with several formats "AdamW's two moments in blocks of 256, int8: 24 tensors;
  /// AdamW's two moments, fp32: embedding, norms, biases".
  std::string optimizer_state_text() const {
    const std::vector<GroupsOptimizer> optimizers = optimizers_of(g_.groups, spec_.optimizer.kind);
    std::string text;
    for (const GroupsOptimizer& of : optimizers) {
      const OptimizerRow& row = row_of(of.kind);
      text += fmt::format("{}{}'s {}, {}", text.empty() ? "" : "; ", row.title, row.keeps,
                          is_dynamic(row.state[0].dtype) ? "int8" : name_of(row.state[0].dtype));
      if (optimizers.size() > 1) text += ": " + members_text(of.groups);
    }
    if (spec_.optimizer_state == spec::OptimizerState::int8 && optimizers.size() == 1)
      text += "; no matrix has 4096 elements in whole blocks of 256";
    return text;
  }

  /// Names of the groups that have parameters, and how many each has; of a second group of one role which.
  std::string members_text(GroupSet groups) const {
    std::string text;
    for (std::size_t group = 0; group < g_.groups.size(); ++group) {
      const auto count = std::ranges::count(parameters_.slices, static_cast<int>(group), &Slice::group);
      if (!holds(groups, static_cast<int>(group)) || count == 0) continue;
      const auto first = std::ranges::find(g_.groups, g_.groups[group].role, &ParameterGroup::role);
      const std::string which = static_cast<std::size_t>(first - g_.groups.begin()) == group ? "" : pieces_of(group);
      text += fmt::format("{}{} ({} tensor{}{})", text.empty() ? "" : ", ", g_.groups[group].name, count, plural(count),
                          which);
    }
    return text;
  }

  std::string pieces_of(std::size_t group) const {
    std::string text;
    for (const Tensor& t : g_.tensors)
      for (const ParameterPiece& piece : t.pieces)
        if (piece.group == static_cast<int>(group)) text += (text.empty() ? ": " : ", ") + piece.name;
    return text;
  }

  /// Starts a named area here.
  std::size_t area(std::string name, std::size_t stride = 0) {
    layout_.areas.push_back({std::move(name), at_, stride});
    return layout_.areas.size() - 1;
  }

  /// Ends a section that began at `begin`, unless it is empty.
  void section(std::string name, std::size_t begin, std::string what, Lasting lasting = Lasting::step) {
    if (at_ > begin) layout_.sections.push_back({std::move(name), begin, at_ - begin, std::move(what), lasting});
  }

  /// Places a buffer that only libraries and copy streams use.
  void place_bytes(const char* name, Use use, std::size_t bytes) {
    const std::size_t in = area(name);
    layout_.buffers.push_back({name, DType::byte, static_cast<std::int64_t>(bytes), use, take(bytes), in});
  }

  void place_host_tensor(TensorId id) {
    const Tensor& t = g_.at(id);
    Placement place{.area = area(t.name)};
    place.offset = take(static_cast<std::size_t>(t.bytes()));
    layout_.fixed[id] = place;
    layout_.buffers.push_back(
        {t.name, t.dtype, t.elements(), t.use, place.offset, place.area, t.state_block, t.groups, t.saved_as});
  }

  template <class Predicate>
  void place_host_tensors(Predicate predicate) {
    for (std::size_t i = 0; i < g_.tensors.size(); ++i)
      if (g_.tensors[i].use != Use::unseen && predicate(g_.tensors[i])) place_host_tensor(static_cast<TensorId>(i));
  }

  struct FlatSection {
    const char* name;
    Use use;
    std::string what;
  };

  void place_flat(const FlatSection& flat) {
    const std::size_t begin = at_;
    place_host_tensors([&](const Tensor& t) { return t.use == flat.use; });
    section(flat.name, begin, flat.what);
  }

  /// Places this rank's shards.
  void place_shares(const FlatSection& flat) {
    const std::size_t begin = at_;
    const auto ranks = static_cast<int>(spec_.parallel.world_size);
    const Shares shares(parameters_.buckets, DataRank{0, ranks}, parameters_.share_unit);
    for (std::size_t i = 0; i < g_.tensors.size(); ++i) {
      const Tensor& t = g_.tensors[i];
      if (t.use != flat.use) continue;
      const std::size_t in = area(t.name);
      layout_.areas[in].shared = shared_++;
      const std::int64_t elements = parameters_.state_elements(shares, t.state_block, t.groups);
      const std::size_t offset = take(static_cast<std::size_t>(bytes_of(t.dtype, elements)));
      layout_.fixed[static_cast<TensorId>(i)] = {offset, 0, in};
      layout_.buffers.push_back({t.name, t.dtype, elements, t.use, offset, in, t.state_block, t.groups, t.saved_as});
    }
    section(flat.name, begin, ranks > 1 ? fmt::format("{}, one of {} shards", flat.what, ranks) : flat.what);
  }

  /// Places the gather buffers. Gradients' come first, and of these the vectors', which every block writes: between
  /// steps the host completes shards there (step/flat_buffers.h).
  void place_windows() {
    std::vector<TensorId> buckets, wires;
    for (std::size_t i = 0; i < g_.tensors.size(); ++i) {
      const Tensor& t = g_.tensors[i];
      const auto id = static_cast<TensorId>(i);
      if (t.role == Role::wire) wires.push_back(id);
      if (t.role == Role::bucket && is_sharded(g_.at(t.partner).use, spec_.parallel.shard)) buckets.push_back(id);
    }
    const auto order = [this](TensorId id) {
      const Tensor& t = g_.at(id);
      return std::pair(g_.at(t.partner).use != Use::gradients,
                       std::ranges::find(kBlocksInOrder, t.block) - kBlocksInOrder);
    };
    std::ranges::stable_sort(buckets, {}, order);
    for (const TensorId id : buckets) {
      place_window(id, buckets);
      if (g_.at(g_.at(id).partner).use == Use::gradients) layout_.gradient_window_bytes = layout_.window_bytes;
    }
    for (const TensorId id : wires) open_window(id, space_of(id), 1);
    const std::size_t begin = at_;
    if (spec_.parallel.world_size > 1) at_ += layout_.window_bytes;
    section("windows", begin, "whole blocks of sharded tensors, while they are used");
  }

  std::size_t space_of(TensorId id) const {
    return window_space(g_.at(id).dtype, g_.at(id).elements(), parameters_.share_unit);
  }

  void open_window(TensorId id, std::size_t space, std::size_t count) {
    layout_.windows[id] = {layout_.window_bytes, count > 1 ? space : 0};
    layout_.window_bytes += count * space;
  }

  /// Places one gather buffer. Layers alternate between kLayerSlots; the embedding and the head, which need theirs at
  /// different times, share one.
  void place_window(TensorId id, const std::vector<TensorId>& buckets) {
    const Tensor& t = g_.at(id);
    const auto other = [&](Block block) {
      const auto found = std::ranges::find_if(
          buckets, [&](TensorId b) { return g_.at(b).block == block && g_.at(b).partner == t.partner; });
      return found == buckets.end() ? kNone : *found;
    };
    const TensorId embed = other(Block::embed), head = other(Block::head);
    if (id == head && embed != kNone)
      layout_.windows[id] = layout_.windows.at(embed);
    else if (id == embed && head != kNone)
      open_window(id, std::max(space_of(embed), space_of(head)), 1);
    else
      open_window(id, space_of(id), t.block == Block::layer ? kLayerSlots : 1);
  }

  void place_host_data() {
    const std::size_t begin = at_;
    place_host_tensors([](const Tensor& t) { return is_input(t.use); });
    place_host_tensors([](const Tensor& t) { return t.role != Role::flat && !is_input(t.use); });
    section("step inputs and tables", begin, "tokens, targets, RoPE table, optimizer chunks, results");
    if (spec_.target.kind != spec::TargetKind::cuda) return;
    const std::size_t workspace = at_;
    place_bytes("math_workspace", Use::math_workspace, math_workspace_);
    section("matrix-product workspace", workspace, "cuBLASLt: partial sums of products that split k");
    // This step's and the next one's. With many micro-batches fewer suffice, because the host is far enough ahead.
    const std::size_t slots = at_;
    const auto count = static_cast<std::size_t>(std::min<std::int64_t>(2 * micro_batches_, kMostInputSlots));
    place_bytes("input_slots", Use::input_slots, count * input_block(layout_.buffers).bytes);
    section("inputs on their way", slots, "two steps' micro-batches, filled by a copy stream");
  }

  /// Places x[0] .. x[layers]: each layer reads its own and writes the next one's.
  void place_stream() {
    const std::size_t begin = at_;
    const ResidualStream& stream = g_.stream;
    const auto bytes = static_cast<std::size_t>(g_.at(stream.below).bytes());
    const std::size_t stride = aligned(bytes);
    const std::size_t in = area("stream", stride);
    take(stride * static_cast<std::size_t>(g_.layers() + 1));
    layout_.fixed[stream.first] = {begin, 0, in};
    layout_.fixed[stream.below] = {begin, stride, in};
    layout_.fixed[stream.above] = {begin + stride, stride, in};
    layout_.fixed[stream.last] = {begin + stride * static_cast<std::size_t>(g_.layers()), 0, in};
    section("residual stream", begin,
            std::string(name_of(g_.at(stream.below).dtype)) + ", one a layer, kept for the backward pass",
            Lasting::pass);
  }

  /// Places tensors of which each layer of a forward region has its own. Their offsets are the same in all regions of
  /// these layers. Returns the bytes of a layer.
  std::size_t place_by_layer(const std::string& name, std::size_t r, const std::vector<TensorId>& ids) {
    const Region& region = g_.regions[r];
    std::size_t slab = 0;
    std::map<TensorId, Placement> places;
    for (TensorId id : ids) {
      places[id].offset = slab;
      slab += aligned(static_cast<std::size_t>(g_.at(id).bytes()));
    }
    // A variant's slabs are indexed by the layer's rank among the layers of that variant.
    const bool only = std::all_of(g_.variants.begin(), g_.variants.end(), [](int variant) { return variant == 0; });
    const std::size_t in = area(only ? name : name + "_" + std::to_string(region.variant), slab);
    const std::size_t base = take(slab * static_cast<std::size_t>(g_.layers_of(region)));
    for (auto& [id, place] : places) place = {base + place.offset, slab, in};
    for (std::size_t other = 0; other < g_.regions.size(); ++other)
      if (region.is_twin(g_.regions[other])) layout_.regions[other].insert(places.begin(), places.end());
    return slab;
  }

  bool is_forward_of_layers(const Region& region) const { return region.block == Block::layer && region.is_forward(); }

  /// Places what all micro-batches of a step read.
  void place_rounded() {
    const std::size_t begin = at_;
    for (std::size_t r = 0; r < g_.regions.size(); ++r)
      if (is_forward_of_layers(g_.regions[r]))
        if (const std::vector<TensorId> ids = rounded_in(g_.regions[r]); !ids.empty())
          place_by_layer("rounded", r, ids);
    for (std::size_t i = 0; i < g_.tensors.size(); ++i) {
      const Tensor& t = g_.tensors[i];
      if (t.role != Role::rounded || t.scope == Scope::layer) continue;
      const std::size_t in = area(t.name);
      layout_.fixed[static_cast<TensorId>(i)] = {take(static_cast<std::size_t>(t.bytes())), 0, in};
    }
    section("rounded weights", begin, "operands of fp8 products, made once a step");
  }

  /// Returns the rounded weights of the layers that a forward region computes.
  std::vector<TensorId> rounded_in(const Region& forward) const {
    std::vector<TensorId> ids;
    for (const Region& region : g_.regions)
      if (region.is_twin(forward))
        for (const Op& op : region.ops)
          if (op.once) ids.insert(ids.end(), op.outputs.begin(), op.outputs.end());
    return ids;
  }

  void place_slabs() {
    const std::size_t begin = at_;
    for (std::size_t r = 0; r < g_.regions.size(); ++r) {
      const Region& region = g_.regions[r];
      if (!is_forward_of_layers(region)) continue;
      std::vector<TensorId> ids;
      std::ranges::copy_if(region.saved, std::back_inserter(ids),
                           [&](TensorId id) { return !layout_.fixed.count(id); });
      layout_.region_kept[r] = place_by_layer("kept", r, ids);
    }
    section("kept activations", begin, "what the backward pass reads, one slab a layer", Lasting::pass);
  }

  struct Life {
    int first = 0, last = 0;                // op positions
    int region_first = 0, region_last = 0;  // positions of whole regions
    std::set<std::size_t> regions;
  };

  void place_transients() {
    const std::size_t begin = at_;
    const std::vector<std::size_t> order = region_order(schedule_);

    // A tensor of one region lives as long as its ops. One that crosses regions lives through all of them, because
    // loops return to them. Tensors of a layer that are not kept are new in each region.
    std::map<std::pair<TensorId, std::size_t>, Life> uses;  // (buffer, region or SIZE_MAX)
    int position = 0;
    layout_.region_begin.resize(g_.regions.size());
    for (std::size_t r : order) {
      const Region& region = g_.regions[r];
      layout_.region_begin[r] = position;
      const int region_first = position, region_last = position + static_cast<int>(region.ops.size()) - 1;
      for (const Op& op : region.ops) {
        for (const auto* list : {&op.inputs, &op.outputs})
          for (TensorId id : *list) {
            const TensorId buffer = g_.buffer(id);
            if (!is_transient(buffer, r)) continue;
            const bool local = g_.at(buffer).scope == Scope::layer;
            auto [use, fresh] = uses.try_emplace({buffer, local ? r : SIZE_MAX});
            Life& u = use->second;
            if (fresh) u.first = position, u.region_first = region_first;
            u.last = position;
            u.region_last = region_last;
            u.regions.insert(r);
          }
        ++position;
      }
    }

    std::vector<PackedBuffer> items;
    for (const auto& [key, use] : uses) {
      const bool crosses = use.regions.size() > 1;
      items.push_back({static_cast<std::size_t>(g_.at(key.first).bytes()), crosses ? use.region_first : use.first,
                       crosses ? use.region_last : use.last, 0});
      layout_.transients.push_back({key.first, aligned(items.back().bytes), items.back().first, items.back().last});
    }
    note_bounds(order, items);
    const Packing packing = pack(items, kAlignment);
    const std::size_t in = area("transients");
    take(packing.bytes);
    layout_.transient_bytes = packing.bytes;
    layout_.transient_bound = packing.bound;
    std::size_t i = 0;
    for (const auto& [key, use] : uses) {
      for (std::size_t r : use.regions) layout_.regions[r][key.first] = {begin + items[i].offset, 0, in};
      ++i;
    }
    section("transients", begin, "packed by lifetime", Lasting::op);
  }

  /// Records the bytes of transients that are live while each op runs, and the maximum of each region.
  void note_bounds(const std::vector<std::size_t>& order, const std::vector<PackedBuffer>& items) {
    std::vector<std::size_t> changes;  // of the live bytes, by position; unsigned sums wrap back
    for (const PackedBuffer& item : items) {
      changes.resize(std::max(changes.size(), static_cast<std::size_t>(item.last) + 2));
      changes[static_cast<std::size_t>(item.first)] += aligned(item.bytes);
      changes[static_cast<std::size_t>(item.last) + 1] -= aligned(item.bytes);
    }
    layout_.region_bounds.resize(g_.regions.size());
    layout_.alive.resize(g_.regions.size());
    std::size_t alive = 0, position = 0;
    for (const std::size_t r : order)
      for (std::size_t i = 0; i < g_.regions[r].ops.size(); ++i, ++position) {
        if (position < changes.size()) alive += changes[position];
        layout_.alive[r].push_back(alive);
        layout_.region_bounds[r] = std::max(layout_.region_bounds[r], alive);
      }
  }

  bool is_transient(TensorId buffer, std::size_t region) const {
    const Tensor& t = g_.at(buffer);
    if (t.role != Role::activation || layout_.fixed.count(buffer)) return false;
    const auto& saved = g_.regions[region].saved;
    return std::find(saved.begin(), saved.end(), buffer) == saved.end();
  }

  const Graph& g_;
  const Schedule& schedule_;
  const spec::Spec& spec_;
  const ParameterLayout& parameters_;
  const std::int64_t micro_batches_;
  const std::size_t math_workspace_;
  ArenaLayout layout_;
  int shared_ = 0;  // sharded buffers placed so far
  std::size_t at_ = 0;
};

}  // namespace

const Placement& ArenaLayout::find(const Graph& graph, std::size_t region, TensorId tensor) const {
  const TensorId buffer = graph.buffer(tensor);
  for (TensorId id : {tensor, buffer})
    if (const auto place = fixed.find(id); place != fixed.end()) return place->second;
  const auto place = regions.at(region).find(buffer);
  if (place == regions.at(region).end())
    throw Failure(Exit::internal,
                  "no memory was planned for %" + graph.at(tensor).name + " in region " + graph.regions[region].name);
  return place->second;
}

ArenaLayout lay_out(const Graph& graph, const Schedule& schedule, const spec::Spec& spec,
                    const ParameterLayout& parameters, std::int64_t micro_batches) {
  ArenaLayout layout = LayoutMaker(graph, schedule, spec, parameters, micro_batches, kTunedWorkspace).make();
  if (layout.bytes <= static_cast<std::size_t>(spec.memory.budget)) return layout;
  return LayoutMaker(graph, schedule, spec, parameters, micro_batches, kUntunedWorkspace).make();
}

}  // namespace llmc::plan
