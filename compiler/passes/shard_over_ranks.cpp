#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <span>

#include "compiler/graph/orthogonal.h"
#include "compiler/ops/make.h"
#include "compiler/passes/passes.h"

namespace llmc::passes {

using namespace graph;

namespace {

class Sharer {
 public:
  Sharer(Graph graph, const spec::Spec& spec)
      : g_(std::move(graph)),
        shard_(spec.parallel.shard),
        sent_(spec.parallel.gradient_dtype),
        optimizer_(spec.optimizer.kind) {
    for (const Tensor& t : g_.tensors)
      if (t.role == Role::parameter) blocks_.insert(bucket_of(t));
  }

  Graph run() {
    find_reads();
    reduce_gradients();
    for (Region& region : g_.regions)
      if (region.part == Part::prepare || region.part == Part::optimizer) add_sums(region);
    exchange_matrices();
    if (shard_ != Shard::none) {
      for (const Block block : kBlocksInOrder) gather(block);
    } else {
      // Without a gather, only a broadcast makes ranks on different processors start with the same bits.
      std::vector<Op>& initialise = g_.region(Block::none, Part::initialise).ops;
      const TensorId weights = initialise.front().outputs[0];
      initialise.push_back(ops::make::broadcast("broadcast", {weights}, {weights}));
    }
    return std::move(g_);
  }

 private:
  static std::string block_name(Block block) { return block == Block::none ? "vectors" : name_of(block); }

  /// Adds a bucket: a range of a flat buffer.
  TensorId bucket(Block block, TensorId flat, const std::string& what) {
    return g_.add({.name = block_name(block) + "_" + what,
                   .dtype = g_.at(flat).dtype,
                   .rows = 1,
                   .cols = 1,  // sized when parameters have offsets
                   .role = Role::bucket,
                   .scope = block == Block::layer ? Scope::layer : Scope::step,
                   .partner = flat,
                   .block = block});
  }

  /// Returns a region for one bucket, in the order of the pass that it follows.
  Region region(const char* verb, Block block, Part part, Loop layers) const {
    return {.name = std::string(verb) + "_" + block_name(block),
            .block = block,
            .part = part,
            .loop = block == Block::layer ? layers : Loop::once,
            .variant = kAllVariants};
  }

  /// Collects the flat buffers, one per dtype, from which ops read the weights of each bucket.
  void find_reads() {
    for (const Region& region : g_.regions)
      for (const Op& op : region.ops)
        for (const TensorId id : op.inputs) {
          const Tensor& t = g_.at(id);
          if (t.role == Role::parameter) reads_[bucket_of(t)].insert(g_.host(Use::masters));
          if (t.role == Role::copy) reads_[bucket_of(g_.at(t.partner))].insert(copies(t.dtype));
        }
  }

  TensorId copies(DType type) const {
    for (std::size_t i = 0; i < g_.tensors.size(); ++i)
      if (g_.tensors[i].use == copies_use(type) && g_.tensors[i].dtype == type) return static_cast<TensorId>(i);
    return kNone;
  }

  void reduce_gradients() {
    const TensorId gradients = g_.host(Use::gradients);
    const bool shared = is_sharded(Use::gradients, shard_), narrow = sent_ != g_.at(gradients).dtype;
    TensorId wire = kNone;
    if (narrow)
      wire = g_.add({.name = "wire", .dtype = sent_, .rows = 1, .cols = 1, .role = Role::wire, .partner = gradients});
    for (const Block block : std::views::reverse(kBlocksInOrder)) {
      if (!blocks_.count(block)) continue;
      Region reduce = region("reduce", block, Part::reduce, Loop::layers_down);
      const TensorId made = bucket(block, gradients, "gradients"), sent = narrow ? wire : made;
      if (narrow) reduce.ops.push_back(ops::make::to_wire("to_wire", {made}, {wire}));
      Op sum = shard_ == Shard::none ? ops::make::all_reduce("all_reduce", {sent}, {sent})
                                     : ops::make::reduce_scatter("reduce_scatter", {sent}, {sent});
      if (narrow) sum.inputs.push_back(made);
      reduce.ops.push_back(std::move(sum));
      if (narrow || shared)
        reduce.ops.push_back(ops::make::from_wire("from_wire", {sent, made}, {shared ? gradients : made}));
      g_.regions.push_back(std::move(reduce));
    }
  }

  /// Sums over chunks cover this rank's elements only, until they are added over the ranks.
  void add_sums(Region& optimizer) {
    const TensorId results = g_.host(Use::results);
    std::vector<TensorId> summed = {results};
    if (!g_.reports.empty()) summed.push_back(g_.host(Use::reports));
    std::vector<Op> all;
    for (std::size_t i = 0; i < optimizer.ops.size(); ++i) {
      const Op& op = optimizer.ops[i];
      const auto later = std::span(optimizer.ops).subspan(i + 1);
      if (std::ranges::count(op.outputs, results)) all.push_back(ops::make::sum_results("sum_results", summed, summed));
      all.push_back(op);
      if (shard_ == Shard::none) continue;
      for (const TensorId id : op.outputs)
        if (g_.at(id).role == Role::activation &&
            std::ranges::none_of(later, [id](const Op& other) { return std::ranges::count(other.outputs, id) > 0; }))
          all.push_back(ops::make::all_reduce("sum_" + g_.at(id).name, {id}, {id}));
    }
    optimizer.ops = std::move(all);
  }

  /// Brings whole matrices to the ranks that orthogonalise them, and the results back. Of gradients that ranks have in
  /// shards the momentum is too.
  void exchange_matrices() {
    const std::vector<OrthogonalMatrix> matrices = orthogonal_matrices(g_, optimizer_);
    if (matrices.empty()) return;
    const TensorId gradients = g_.host(Use::gradients);
    const bool shared = is_sharded(Use::gradients, shard_);
    const TensorId whole = bucket_of_gradients(gradients);
    if (is_sharded(Use::state, shard_)) {
      Region to = region("gather_momentum", Block::layer, Part::to_owners, Loop::layers_up);
      to.ops.push_back(ops::make::all_gather("gather_momentum", {shared ? gradients : whole}, {whole}));
      g_.regions.push_back(std::move(to));
    }
    Region from = region("return", Block::layer, Part::from_owners, Loop::layers_up);
    std::vector<TensorId> all;
    for (const OrthogonalMatrix& matrix : matrices)
      if (std::ranges::find(all, matrix.gradient) == all.end()) all.push_back(matrix.gradient);
    const bool of_rows = std::ranges::any_of(g_.tensors, [](const Tensor& t) { return t.use == Use::row_state; });
    if (of_rows) all.push_back(g_.host(Use::row_state));
    from.ops.push_back(ops::make::clear_others("clear_others", all, all));
    from.ops.push_back(shard_ == Shard::none ? ops::make::all_reduce("all_reduce", {whole}, {whole})
                                             : ops::make::reduce_scatter("reduce_scatter", {whole}, {whole}));
    if (shared) from.ops.push_back(ops::make::from_wire("from_wire", {whole, whole}, {gradients}));
    g_.regions.push_back(std::move(from));
    if (!of_rows) return;
    Region rows = region("return", Block::none, Part::from_owners, Loop::once);
    rows.ops.push_back(ops::make::all_reduce("all_reduce", {all.back()}, {all.back()}));
    g_.regions.push_back(std::move(rows));
  }

  /// The bucket of a layer's gradients that reduce_gradients() has made.
  TensorId bucket_of_gradients(TensorId gradients) const {
    for (std::size_t i = 0; i < g_.tensors.size(); ++i) {
      const Tensor& t = g_.tensors[i];
      if (t.role == Role::bucket && t.partner == gradients && t.block == Block::layer) return static_cast<TensorId>(i);
    }
    return kNone;
  }

  void gather(Block block) {
    if (!blocks_.count(block)) return;
    Region gather = region("gather", block, Part::gather, Loop::layers_up);
    for (const TensorId flat : reads_[block]) {
      const std::string what = g_.at(flat).use == Use::masters ? "weights" : g_.at(flat).name;
      const TensorId whole = bucket(block, flat, what);
      const TensorId from = is_sharded(g_.at(flat).use, shard_) ? flat : whole;
      gather.ops.push_back(ops::make::all_gather("gather_" + what, {from}, {whole}));
    }
    g_.regions.push_back(std::move(gather));
  }

  Graph g_;
  const Shard shard_;
  const DType sent_;
  const OptimizerKind optimizer_;
  std::set<Block> blocks_;                     // blocks that have a bucket
  std::map<Block, std::set<TensorId>> reads_;  // the flat buffers that the bucket's weights are read from
};

}  // namespace

Graph shard_over_ranks(Graph graph, const spec::Spec& spec) { return Sharer(std::move(graph), spec).run(); }

}  // namespace llmc::passes
