// Executes the plan on a shadow of the arena: every byte records the tensor and layer last written there, and every op
// must find its inputs.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "compiler/ops/graph_text.h"
#include "compiler/plan/plan.h"
#include "error.h"
#include "small_spec.h"

namespace llmc::plan {
namespace {

using namespace graph;

class Shadow {
 public:
  explicit Shadow(const Plan& plan) : plan_(plan), g_(plan.graph), owner_(plan.layout.bytes / kGranule + 1) {}

  /// A whole step: forward, loss and backward for each micro-batch, collectives, optimizer; then evaluation and
  /// sampling. Rounded weights last from the first micro-batch to the end.
  void run() {
    for (const bool first : {true, false}) {
      first_ = first;
      for (Part part : {Part::forward, Part::loss, Part::backward}) run(part);
    }
    for (Part part : {Part::reduce, Part::optimizer, Part::gather}) run(part);
    for (Part part : {Part::forward, Part::evaluate, Part::forward, Part::sample}) run(part);
    for (Part part : {Part::forward, Part::audit}) run(part);
    run(Part::audit);  // a whole audit pass has no other before it
  }

 private:
  static constexpr std::size_t kGranule = 256;  // offsets are multiples of it

  struct Range {
    std::size_t begin, end;  // granules
    bool meets(const Range& other) const { return begin < other.end && other.begin < end; }
  };

  void run(Part part) {
    bool layers_done = false;
    for (std::size_t r = 0; r < g_.regions.size(); ++r) {
      const Region& region = g_.regions[r];
      if (region.part != part) continue;
      switch (region.loop) {
        case Loop::once: run(r, 0); break;
        case Loop::loss_chunks:
          for (std::int64_t chunk = 0; chunk < g_.tokens() / g_.chunk_rows; ++chunk) run(r, 0);
          break;
        case Loop::layers_up:
        case Loop::layers_down:
          if (!layers_done) run_layers(part, region.loop);
          layers_done = true;
          break;
      }
    }
  }

  void run_layers(Part part, Loop loop) {
    for (std::int64_t i = 0; i < g_.layers(); ++i) {
      const std::int64_t layer = loop == Loop::layers_up ? i : g_.layers() - 1 - i;
      int found = 0;
      for (std::size_t r = 0; r < g_.regions.size(); ++r) {
        const Region& region = g_.regions[r];
        if (region.loop != loop || region.part != part ||
            (region.variant != kAllVariants && region.variant != g_.variants[static_cast<std::size_t>(layer)]))
          continue;
        run(r, layer);
        ++found;
      }
      ASSERT_EQ(found, 1) << "layer " << layer << " must have one variant";
    }
  }

  bool has_place(const Tensor& t) const {
    return t.role == Role::activation || t.role == Role::rounded || t.role == Role::output;
  }

  Range place(std::size_t r, std::int64_t layer, TensorId id) const {
    const Region& region = g_.regions[r];
    const Placement& place = plan_.layout.find(g_, r, id);
    auto index = static_cast<std::size_t>(layer);
    if (g_.at(id).scope == Scope::layer)  // index among the layers of its variant
      index = static_cast<std::size_t>(std::count(g_.variants.begin(), g_.variants.begin() + layer, region.variant));
    const std::size_t begin = place.offset + index * place.layer_stride;
    EXPECT_EQ(begin % kGranule, 0u) << g_.at(id).name;
    return {begin / kGranule, (begin + static_cast<std::size_t>(g_.at(id).bytes()) + kGranule - 1) / kGranule};
  }

  /// One identity for all names of a buffer: the stream and its gradient have several.
  std::string identity(TensorId id, std::int64_t layer) const {
    const TensorId buffer = g_.storage(id);
    if (id == g_.stream.below) return "stream " + std::to_string(layer);
    if (id == g_.stream.above) return "stream " + std::to_string(layer + 1);
    if (id == g_.stream.last) return "stream " + std::to_string(g_.layers());
    if (id == g_.stream.first) return "stream 0";
    for (TensorId d : {g_.dstream.below, g_.dstream.above, g_.dstream.last, g_.dstream.first})
      if (g_.storage(d) == buffer) return "gradient of the stream";
    return g_.at(buffer).name + (g_.at(buffer).scope == Scope::layer ? " " + std::to_string(layer) : "");
  }

  void run(std::size_t r, std::int64_t layer) {
    const Region& region = g_.regions[r];
    for (const Op& op : region.ops) {
      if (op.once && !first_) continue;
      SCOPED_TRACE(region.name + " layer " + std::to_string(layer) + ": " + ops::to_text(g_, op));
      for (TensorId id : op.inputs) {
        if (!has_place(g_.at(id))) continue;
        const Range range = place(r, layer, id);
        for (std::size_t at = range.begin; at < range.end; ++at)
          ASSERT_EQ(owner_.at(at), identity(id, layer)) << "reads %" << g_.at(id).name << " at " << at * kGranule;
      }
      for (TensorId id : op.outputs) {
        if (!has_place(g_.at(id))) continue;
        const Range range = place(r, layer, id);
        ASSERT_GE(range.begin * kGranule, first_activation()) << "%" << g_.at(id).name << " lies among the weights";
        ASSERT_LE(range.end * kGranule, state_begin()) << "%" << g_.at(id).name << " lies in the optimizer's state";
        // An op's inputs must not overlap its outputs, except in the same buffer.
        for (TensorId other : op.inputs)
          if (has_place(g_.at(other)) && identity(other, layer) != identity(id, layer)) {
            ASSERT_FALSE(range.meets(place(r, layer, other)))
                << "%" << g_.at(id).name << " over %" << g_.at(other).name;
          }
        for (TensorId other : op.outputs)
          if (other != id && has_place(g_.at(other))) {
            ASSERT_FALSE(range.meets(place(r, layer, other)))
                << "%" << g_.at(id).name << " over %" << g_.at(other).name;
          }
        for (std::size_t at = range.begin; at < range.end; ++at) owner_.at(at) = identity(id, layer);
      }
    }
  }

  /// Weights and their gradients come first; sample_logits and parameter norms are among the step's tables.
  std::size_t first_activation() const {
    return place_of(Use::gradients) + 4 * static_cast<std::size_t>(plan_.parameters.elements);
  }

  std::size_t state_begin() const { return place_of(Use::state); }

  std::size_t place_of(Use use) const { return plan_.layout.fixed.at(g_.host(use)).offset; }

  const Plan& plan_;
  const Graph& g_;
  std::vector<std::string> owner_;
  bool first_ = true;
};

/// Random overrides of the small spec.
std::vector<std::string> draw(unsigned seed) {
  std::mt19937 rng(seed);
  const auto pick = [&](const std::vector<const char*>& values) { return std::string(values[rng() % values.size()]); };
  std::vector<std::string> overrides = {
      "model.num_hidden_layers=" + pick({"1", "2", "3", "4", "5"}),
      "model.hidden_size=" + pick({"36", "48", "100", "256"}),
      "model.head_dim=" + pick({"8", "16", "64"}),
      "model.intermediate_size=" + pick({"33", "50", "128", "500"}),
      "model.tie_word_embeddings=" + pick({"true", "false"}),
      "model.attention_bias=" + pick({"true", "false"}),
      "model.mlp_bias=" + pick({"true", "false"}),
      "precision.compute=" + pick({"fp32", "bf16"}),
      "memory.loss_chunk=" + pick({"8", "16", "24", "48"}),
      "memory.recompute=" +
          pick({"none", "full", "{every: 1}", "[norms]", "[norms, swiglu]", "[attention]", "[qkv]", "[residual]",
                "[gate_up]", "{layers: {0: full}}", "[norms, qkv, attention, residual, gate_up, swiglu]"}),
      "metrics.per_parameter=" + pick({"true", "false"}),
  };
  const bool narrow = std::count(overrides.begin(), overrides.end(), "precision.compute=bf16");
  overrides.push_back("audit.compute=" + pick({"none", "logits", narrow ? "forward" : "logits"}));
  // A model with qk_norm has no biases in its MLP.
  const bool biases = std::count(overrides.begin(), overrides.end(), "model.mlp_bias=true");
  overrides.push_back("model.qk_norm=" + (biases ? "false" : pick({"true", "false"})));
  return overrides;
}

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += word + " ";
  return text;
}

void check(const std::vector<std::string>& overrides) {
  SCOPED_TRACE(joined(overrides));
  const Plan plan = make_plan(small_spec(overrides).spec);
  Shadow(plan).run();
  EXPECT_GE(plan.layout.transient_bytes, plan.layout.transient_bound);
  std::size_t end = 0;
  for (const Section& section : plan.layout.sections) {
    EXPECT_EQ(section.offset, end) << section.name;
    end += section.bytes;
  }
  EXPECT_EQ(end, plan.layout.bytes);
}

/// The quick start's model on the CPU, and the reference run, which has slots, a workspace and copies.
std::vector<Plan> both_targets() {
  const spec::LoadResult cuda = spec::load(std::string(SPECS_FOLDER) + "/llama-1b.yaml", {});
  EXPECT_TRUE(cuda.resolved) << spec::render(cuda.diagnostics);
  return {make_plan(small_spec({"precision.compute=bf16"}).spec), make_plan(cuda.resolved->spec)};
}

TEST(Arena, TheHostsBuffersLieApartAndSharedOnesLast) {
  for (const Plan& plan : both_targets()) {
    const InputBlock block = input_block(plan.layout.buffers);
    std::size_t end = 0;
    bool sharded = false;
    for (const HostBuffer& buffer : plan.layout.buffers) {
      EXPECT_GE(buffer.offset, end) << buffer.name;
      EXPECT_EQ(buffer.offset % kArenaAlignment, 0u) << buffer.name;
      const Area& area = plan.layout.areas[buffer.area];
      EXPECT_EQ(area.offset, buffer.offset) << buffer.name;
      const bool shared = is_sharded(buffer.use, plan.spec.parallel.shard);
      EXPECT_EQ(area.shared >= 0, shared) << buffer.name;
      EXPECT_GE(shared, sharded) << buffer.name << " lies behind what ranks share out";
      const bool inside = buffer.offset >= block.offset && buffer.offset + buffer.bytes() <= block.offset + block.bytes;
      EXPECT_EQ(inside, is_input(buffer.use)) << buffer.name;
      sharded = shared;
      end = buffer.offset + buffer.bytes();
    }
    EXPECT_LE(end, plan.layout.bytes);
    EXPECT_TRUE(sharded);
    const auto count = [&](Use use) {
      return std::count_if(plan.layout.buffers.begin(), plan.layout.buffers.end(),
                           [use](const HostBuffer& b) { return b.use == use; });
    };
    EXPECT_EQ(count(Use::state), 2);
    for (const Use use : {Use::masters, Use::gradients, Use::copies, Use::group_scalars, Use::tokens, Use::results})
      EXPECT_EQ(count(use), 1) << name_of(use);
  }
}

/// 8.03 billion parameters: 2 bytes for a copy, 4 each for the weight, its gradient and each moment.
TEST(Arena, AModelOf8BillionFitsOnGpusThatShareItOut) {
  for (const int ranks : {8, 64})
    for (const Shard shard : {Shard::gradients, Shard::parameters}) {
      spec::Spec spec = spec::load(std::string(SPECS_FOLDER) + "/llama-8b.yaml", {}).resolved->spec;
      spec.parallel.world_size = ranks;
      spec.parallel.shard = shard;
      const Plan plan = make_plan(spec);
      EXPECT_LE(plan.layout.bytes, static_cast<std::size_t>(spec.memory.budget));
      std::size_t flat = 0;
      for (const HostBuffer& buffer : plan.layout.buffers)
        if (is_sharded(buffer.use, Shard::parameters)) flat += buffer.bytes();
      const double parameters = 8.03e9, shared = shard == Shard::gradients ? 12 : 18;
      const double bytes = parameters * (18 - shared + shared / ranks);
      EXPECT_NEAR(static_cast<double>(flat), bytes, 0.01 * bytes) << ranks << " ranks";
    }
}

TEST(Arena, NoTensorIsOverwrittenWhileItIsAlive) {
  for (unsigned seed = 0; seed < 60 && !testing::Test::HasFatalFailure(); ++seed) check(draw(seed));
}

TEST(Arena, LayersOfTwoKinds) {
  for (const char* every : {"{every: 2}", "{every: 3}"})
    for (const char* compute : {"fp32", "bf16"})
      check({"model.num_hidden_layers=5", std::string("memory.recompute=") + every,
             std::string("precision.compute=") + compute});
}

TEST(Arena, Cuda) {
  for (const char* recompute : {"none", "full", "{every: 2}", "[norms, swiglu]"})
    check({"target.kind=cuda", "target.arch=[90a]", "model.head_dim=16", std::string("memory.recompute=") + recompute});
}

TEST(Arena, RoundedWeightsStayForAllMicroBatches) {
  for (const std::string matmul : {"fp8", "fp8_full", "fp8_tensor", "mxfp8"})
    for (const bool cuda : {false, true})
      for (const char* recompute : {"none", "{every: 2}"}) {
        std::vector<std::string> words = {"precision.matmul=" + matmul,
                                          std::string("memory.recompute=") + recompute,
                                          "model.hidden_size=96",
                                          "model.head_dim=32",
                                          "model.intermediate_size=64",
                                          "batch.sequence_length=16",
                                          "batch.tokens=96",
                                          "precision.fp8.first_layers=1",
                                          "precision.fp8.last_layers=0"};
        if (cuda)
          words.insert(words.end(),
                       {"target.kind=cuda", matmul == "mxfp8" ? "target.arch=[100a]" : "target.arch=[90a]"});
        EXPECT_TRUE(make_plan(small_spec(words).spec).choice.keep_rounded_weights);
        check(words);
      }
}

TEST(Arena, SlabsOfLayersAreApart) {
  const Plan plan = make_plan(small_spec().spec);
  std::size_t slabs = 0;
  for (std::size_t r = 0; r < plan.graph.regions.size(); ++r) {
    if (plan.graph.regions[r].loop != Loop::layers_up) continue;
    std::size_t bytes = 0, stride = 0;
    for (TensorId id : plan.graph.regions[r].saved) {
      const Placement& place = plan.layout.find(plan.graph, r, id);
      if (plan.layout.fixed.count(id)) continue;
      bytes += (static_cast<std::size_t>(plan.graph.at(id).bytes()) + 255) / 256 * 256;
      stride = place.layer_stride;
      ++slabs;
    }
    EXPECT_EQ(stride, bytes);  // dense: one slab contains nothing but kept tensors
  }
  EXPECT_GT(slabs, 5u);
}

TEST(Arena, RecomputingNeedsLess) {
  const auto bytes = [](const char* recompute) {
    return make_plan(small_spec({std::string("memory.recompute=") + recompute}).spec).layout.bytes;
  };
  EXPECT_LT(bytes("full"), bytes("{every: 2}"));
  EXPECT_LT(bytes("{every: 2}"), bytes("none"));
  EXPECT_LT(bytes("[norms, swiglu]"), bytes("none"));
}

TEST(Arena, ABudgetOfExactlyItsBytesIsEnough) {
  for (const bool cuda : {false, true}) {
    const auto with_budget = [&](const std::string& budget) {
      std::vector<std::string> words = {"memory.recompute=none", "memory.budget=" + budget};
      if (cuda)
        words.insert(words.end(), {"model.attention_bias=false", "target.kind=cuda", "target.attention=portable"});
      return make_plan(small_spec(words).spec);
    };
    const Plan plan = with_budget("1GiB");
    // 64 MiB of GEMM workspace, if the budget allows.
    const std::size_t bytes = plan.needed_bytes() - (cuda ? kTunedWorkspace - kUntunedWorkspace : 0);
    EXPECT_EQ(with_budget(std::to_string(bytes)).needed_bytes(), bytes);
    EXPECT_THROW(with_budget(std::to_string(bytes - 1)), Failure);
  }
}

/// A CPU budget covers the whole process: more threads, tokens and a larger vocabulary to sample from take more.
TEST(Arena, ABudgetOfACpuCountsTheProcess) {
  const auto process = [](std::vector<std::string> words) {
    const Plan plan = make_plan(small_spec(words).spec);
    EXPECT_EQ(plan.needed_bytes(), plan.layout.bytes + plan.process_bytes);
    return plan.process_bytes;
  };
  const std::size_t least = process({});
  EXPECT_GT(least, std::size_t{30} << 20);
  EXPECT_EQ(process({"batch.tokens=4800"}) - process({"batch.tokens=2400"}), 2400 * 5 * 20);
  EXPECT_GT(process({"sampling.prompts=[\"1\"]", "sampling.every=1"}), least);
  EXPECT_EQ(process({"model.attention_bias=false", "target.kind=cuda", "target.attention=portable"}), 0);
  // A thread's row of logits is in the heap if it is wide.
  EXPECT_EQ(process({"model.vocab_size=65536"}), least);
  const std::size_t row = process({"model.vocab_size=70000"}) - least, threads = row / (70000 * 4);
  EXPECT_GT(threads, 0);
  EXPECT_EQ(row, threads * 70000 * 4);
  EXPECT_EQ(process({"model.vocab_size=70000", "model.final_logit_softcapping=30"}) - least, 2 * row);
  // Below AVX-512 oneDNN's copies of operands stay in the heap.
  EXPECT_EQ(process({"target.arch=haswell"}) - process({"target.arch=cascadelake"}), std::size_t{24} << 20);
}

TEST(Arena, AutoTakesTheLargestMicroBatchThatFits) {
  const std::vector<std::string> open = {"batch.micro_batch=auto", "batch.tokens=384", "memory.loss_chunk=8",
                                         "memory.recompute=none"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), open.begin(), open.end());
    return small_spec(more).spec;
  };
  EXPECT_EQ(make_plan(with({})).choice.micro_batch, 16);
  std::int64_t before = 16;
  for (std::size_t budget = make_plan(with({})).needed_bytes() - 1; before > 1;) {
    const Plan plan = make_plan(with({"memory.budget=" + std::to_string(budget)}));
    EXPECT_EQ(plan.choice.micro_batch, before / 2) << "the next smaller divisor fits";
    EXPECT_LE(plan.needed_bytes(), budget);
    before = plan.choice.micro_batch;
    budget = plan.needed_bytes() - 1;
  }
  try {
    make_plan(with({"memory.budget=40Mi", "model.hidden_size=1200"}));
    FAIL() << "40 MiB are enough?";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::does_not_fit);
  }
}

}  // namespace
}  // namespace llmc::plan
