// The order of a step for each value of parallel.shard, and everything derived from it.
#include "compiler/plan/schedule.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "compiler/plan/cost.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/schedule_walk.h"
#include "error.h"
#include "small_spec.h"

namespace llmc::plan {
namespace {

Plan of_ranks(const std::string& shard, std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.end(), {"parallel.world_size=2", "parallel.shard=" + shard});
  return make_plan(small_spec(overrides).spec);
}

/// Lines of one pass, without the pass's name.
std::string text_of_pass(const Plan& plan, const std::string& pass) {
  std::string text;
  bool inside = false;
  for (const std::string& line : text_lines(plan.schedule, plan.graph)) {
    if (line[0] != ' ')
      inside = line == pass + ":";
    else if (inside)
      text += line + "\n";
  }
  return text;
}

std::size_t region(const Plan& plan, const std::string& name) {
  for (std::size_t r = 0; r < plan.graph.regions.size(); ++r)
    if (plan.graph.regions[r].name == name) return r;
  ADD_FAILURE() << "no region " << name;
  return 0;
}

TEST(Schedule, GathersOneLayerAheadAndReducesBehind) {
  const Plan plan = of_ranks("parameters");
  EXPECT_EQ(text_of_pass(plan, "forward"), R"(  send gather_vectors, then mark vectors_gathered
  send gather_embed, then mark embed_gathered
  send gather_layer of layer 0, then mark layer_gathered
  wait for vectors_gathered
  wait for embed_gathered
  run embed
  layers up:
    layers 0 to count - 2: send gather_layer of layer +1, then mark layer_gathered
    other layers: send gather_head, then mark head_gathered
    wait for layer_gathered
    run layer_forward
  wait for head_gathered
  run head
)");
  EXPECT_EQ(text_of_pass(plan, "micro_batch"), R"(  forward, gathering if first
  3 chunks: run loss_chunk
  run head_backward
  send reduce_head, then mark head_reduced
  layers down:
    layers 1 to count - 2: send gather_layer of layer -1, then mark layer_gathered
    layers 0 to count - 3: wait for layer_gathered
    layers 0 to count - 3: wait for layer_reduced
    run layer_backward
    send reduce_layer, then mark layer_reduced
  wait for head_reduced
  run embed_backward
  send reduce_embed
  send reduce_vectors
  join
)");
  EXPECT_EQ(text_of_pass(plan, "gather_weights"), "");
}

TEST(Schedule, OfWholeGradientsReducesInTheLastMicroBatch) {
  const Plan plan = of_ranks("optimizer");
  EXPECT_EQ(text_of_pass(plan, "micro_batch"), R"(  forward, gathering if first
  3 chunks: run loss_chunk
  run head_backward
  last: send reduce_head
  layers down:
    run layer_backward
    last: send reduce_layer
  run embed_backward
  last: send reduce_embed
  last: send reduce_vectors
  last: join
)");
  EXPECT_NE(text_of_pass(plan, "gather_weights").find("send gather_layer"), std::string::npos);
  EXPECT_EQ(text_of_pass(of_ranks("none"), "forward").find("gather"), std::string::npos);
}

/// Without stops a pass gathers and reduces nothing. Layers come in the order of the pass, each in its variant.
TEST(Schedule, StopsAreThoseOfTheMoment) {
  const Plan plan = of_ranks("optimizer", {"memory.recompute={every: 2}"});
  std::vector<std::string> names;
  for (const Stop& stop : stops(plan.schedule, PassName::micro_batch, {false, false})) {
    ASSERT_EQ(stop.item->does, ScheduleItem::Does::run);
    names.push_back(fmt::format("{} {}", plan.graph.regions[stop.region].name, stop.layer));
  }
  EXPECT_EQ(fmt::format("{}", fmt::join(names, "\n")), R"(embed 0
layer_forward_recomputed 0
layer_forward 1
layer_forward_recomputed 2
head 0
loss_chunk 0
head_backward 0
layer_backward_recomputed 2
layer_backward 1
layer_backward_recomputed 0
embed_backward 0)");
}

TEST(Schedule, CountsWhatAStepRuns) {
  const Plan plan = of_ranks("parameters", {"model.num_hidden_layers=5"});
  const std::vector<Runs> runs = runs_of(plan.schedule, plan.graph.regions.size());
  const auto of = [&](const char* name) { return runs[region(plan, name)]; };
  EXPECT_EQ(of("gather_layer").times, 5 + 3) << "the last two stay in their buffers";
  EXPECT_FALSE(of("gather_layer").per_step);
  EXPECT_EQ(of("loss_chunk").times, 3);
  EXPECT_EQ(of("layer_backward").times, 5);
  EXPECT_EQ(of("optimizer").times, 1);
  EXPECT_TRUE(of("optimizer").per_step);
  EXPECT_EQ(of("sample").times, 0);
  const Plan whole = of_ranks("optimizer");
  const std::vector<Runs> of_whole = runs_of(whole.schedule, whole.graph.regions.size());
  EXPECT_TRUE(of_whole[region(whole, "gather_layer")].per_step);
  EXPECT_TRUE(of_whole[region(whole, "reduce_layer")].per_step);
}

TEST(Schedule, SaysWhatNothingHides) {
  const Plan plan = of_ranks("parameters");
  const auto of = [&](const char* name) {
    const Overlap overlap = overlap_of(plan.schedule, region(plan, name));
    return fmt::format("{}{}", overlap.forward ? "f" : "", overlap.backward ? "b" : "");
  };
  EXPECT_EQ(of("gather_vectors"), "");
  EXPECT_EQ(of("gather_embed"), "");
  EXPECT_EQ(of("gather_layer"), "fb");
  EXPECT_EQ(of("gather_head"), "f");
  EXPECT_EQ(of("reduce_head"), "b");
  EXPECT_EQ(of("reduce_layer"), "b");
  EXPECT_EQ(of("reduce_embed"), "");
  EXPECT_EQ(of("reduce_vectors"), "");
}

/// Emitted sources call GEMMs by name: a name with two shapes would run the wrong one.
TEST(Schedule, ProductsOfOneNameHaveOneShape) {
  Plan plan = of_ranks("optimizer");
  for (graph::Region& r : plan.graph.regions)
    for (graph::Op& op : r.ops)
      if (op.name == "qkv" || op.name == "o") op.name = "same";
  plan.kernels.clear();
  plan.products.clear();
  plan.launches.clear();
  try {
    list_work(plan);
    FAIL() << "two shapes were merged";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::internal);
    EXPECT_NE(std::string(failure.what()).find("two products named same"), std::string::npos) << failure.what();
  }
}

}  // namespace
}  // namespace llmc::plan
