// Products in the plan's JSON: their factors, where they are not 1, and their scales.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "../folder.h"
#include "compiler/plan/step_time.h"
#include "compiler/tools/report/disk_report.h"
#include "compiler/tools/report/measured.h"
#include "compiler/tools/report/plan_report.h"
#include "compiler/tools/report/product_report.h"
#include "error.h"
#include "small_spec.h"

namespace llmc::report {
namespace {

TEST(PlanReport, AProductHasItsFactorsUnlessTheyAreOne) {
  plan::Plan plan = plan::make_plan(small_spec().spec);
  const nlohmann::ordered_json plain = plan_json(plan)["products"][0];
  EXPECT_EQ(plain["operands"], "bf16");
  EXPECT_FALSE(plain.contains("alpha"));
  EXPECT_FALSE(plain.contains("beta"));
  GemmShape& shape = plan.products[0].shape;
  shape.alpha = 0.5f;
  shape.beta = 2;
  const nlohmann::ordered_json scaled = plan_json(plan)["products"][0];
  EXPECT_EQ(scaled["alpha"], 0.5);
  EXPECT_EQ(scaled["beta"], 2);
}

TEST(PlanReport, AScaledProductSaysSo) {
  plan::Plan plan = plan::make_plan(small_spec().spec);
  const nlohmann::ordered_json plain = plan_json(plan)["products"][0];
  EXPECT_FALSE(plain.contains("scaling"));
  EXPECT_FALSE(plain.contains("fast_accumulation"));
  GemmShape& shape = plan.products[0].shape;
  shape.scaling = Scaling::rows, shape.fast_accumulation = true;
  const nlohmann::ordered_json scaled = plan_json(plan)["products"][0];
  EXPECT_EQ(scaled["scaling"], "rows");
  EXPECT_EQ(scaled["fast_accumulation"], true);
  shape.scaling = Scaling::tensors, shape.operand = DType::e4m3, shape.e5m2_a = true;
  const nlohmann::ordered_json of_gradient = plan_json(plan)["products"][0];
  EXPECT_EQ(of_gradient["scaling"], "tensors");
  EXPECT_EQ(of_gradient["operands"], "e5m2 x e4m3");
}

TEST(PlanReport, AProductOfCudaHasItsTunedKey) {
  EXPECT_FALSE(plan_json(plan::make_plan(small_spec().spec))["products"][0].contains("tuned_key"));
  plan::Plan plan = plan::make_plan(small_spec({"target.kind=cuda", "target.arch=[90a]", "model.head_dim=16"}).spec);
  const auto key = [&] { return plan_json(plan)["products"][0]["tuned_key"].get<std::string>(); };
  const std::string exact = key();
  plan.products[0].shape.fast_accumulation = true;
  EXPECT_EQ(key(), std::string(exact).insert(exact.find(", aligned"), ", fast accumulation"));
}

/// Products of 21 matrices, of which each rank has a part.
TEST(PlanReport, MuonsProductsAreThoseOfTheBusiestRank) {
  EXPECT_EQ(orthogonalising_text(plan::make_plan(small_spec().spec)), "");
  const auto text = [](const std::string& world) {
    return orthogonalising_text(
        plan::make_plan(small_spec({"optimizer.kind=muon", "model.num_hidden_layers=3", "optimizer.muon.iterations=5",
                                    "batch.tokens=1008", "parallel.world_size=" + world})
                            .spec));
  };
  const std::string one = text("1"), most = text("21");
  EXPECT_NE(one.find("orthogonalises 21 matrices a step, "), std::string::npos) << one;
  EXPECT_NE(most.find("the busiest of 21 ranks 1 of them: "), std::string::npos) << most;
  // One matrix has a product of each kind in each iteration.
  EXPECT_EQ(std::ranges::count(most, '\n'), 6) << most;
  for (const char* product : {"  gram_", "  polynomial_", "  iterate_"}) {
    const std::size_t at = most.find(product);
    ASSERT_NE(at, std::string::npos) << most;
    EXPECT_NE(most.substr(at, most.find('\n', at) - at).find(" 5/step "), std::string::npos) << most;
  }
}

/// Sums of a step are one rank's, and the scores of windows are no half of a square.
TEST(PlanReport, SaysOfWhatItsSumsAre) {
  const auto has = [](const plan::Plan& plan, const char* words) {
    return plan_text(plan).find(words) != std::string::npos;
  };
  plan::Plan one = plan::make_plan(small_spec().spec);
  EXPECT_FALSE(has(one, " a step of a rank, "));
  EXPECT_TRUE(has(plan::make_plan(small_spec({"parallel.world_size=2"}).spec), " a step of a rank, "));
  EXPECT_TRUE(has(one, "half of the full square: "));
  one.graph.kinds[0].window = 8;
  EXPECT_TRUE(has(one, "causal attention, the scores of its windows: "));
  EXPECT_FALSE(has(one, "half of the full square"));
}

/// Products of the passes alone can be in bf16x3.
TEST(PlanReport, MuonsProductsAreNotBf16x3) {
  const plan::Plan plan = plan::make_plan(small_spec({"optimizer.kind=muon", "precision.compute=fp32",
                                                      "precision.matmul=bf16x3", "target.arch=sapphirerapids"})
                                              .spec);
  const std::string text = matmul_text(plan);
  const std::size_t apart = text.find("; the optimizer's always in fp32 by oneDNN: "), first = text.find("gram_");
  ASSERT_NE(apart, std::string::npos) << text;
  EXPECT_GT(first, apart) << text;
  EXPECT_EQ(text.find("lm_head", apart), std::string::npos) << text;
}

/// The first rank writes timelines. The one with most FLOPs may have others of Muon's matrices.
TEST(Measured, TimelinesAreOfTheFirstRank) {
  const plan::Plan plan =
      plan::make_plan(small_spec({"optimizer.kind=muon", "batch.tokens=144", "parallel.world_size=3"}).spec);
  const test::Folder folder;
  const auto measured = [&](int rank) {
    const std::vector<std::int64_t> runs = plan::matrix_runs(plan, rank);
    nlohmann::json events = {{{"ph", "X"}, {"cat", "step"}, {"tid", 1}, {"args", nlohmann::json::object()}}};
    for (const plan::Launch& l : plan.launches) {
      const bool of_matrix = plan.graph.regions[l.region_index].matrix != graph::kNoMatrix;
      for (std::int64_t i = 0; i < (of_matrix ? runs[l.region_index] : plan.times_a_step(l)); ++i)
        events.push_back({{"ph", "X"},
                          {"cat", l.launched_as()},
                          {"tid", 1},
                          {"name", l.op},
                          {"dur", 1},
                          {"args", {{"region", l.region}, {"runs", l.what}}}});
    }
    const nlohmann::json about = {
        {"fingerprint", ""}, {"device", "x"}, {"threads", 1}, {"steps", {1}}, {"step_seconds", {1.0}}};
    return read_measured(
        folder.write("timeline.json", nlohmann::json({{"traceEvents", events}, {"otherData", about}}).dump()), plan);
  };
  EXPECT_NE(plan::matrix_runs(plan, 0), plan::matrix_runs(plan, 1));
  EXPECT_NE(plan::matrix_owners(plan)->busiest(), 0) << "else both counts are equal";
  EXPECT_FALSE(measured(0).ops.empty());
  EXPECT_THROW(measured(1), Failure);
}

/// As retention leaves them while the last one is written.
TEST(Disk, HasRoomForAllThatIsKept) {
  plan::Plan plan = plan::make_plan(small_spec().spec);
  spec::Checkpoint& policy = plan.spec.checkpoint;
  plan.spec.schedule.steps = 17;
  plan.spec.evaluation.every = 2;
  policy.every = 4, policy.keep_last = 100, policy.keep_every = 0, policy.best = "none";
  EXPECT_EQ(most_checkpoints(plan), 5u) << "4, 8, 12, 16 and 17";
  EXPECT_EQ(plan_json(plan)["disk"]["most_bytes"], 5 * checkpoint_bytes(plan));
  policy.keep_last = 1;
  EXPECT_EQ(most_checkpoints(plan), 2u);
  policy.keep_every = 8;
  EXPECT_EQ(most_checkpoints(plan), 3u) << "8, the newest and the last; 16 is the newest";
  policy.best = "validation";
  EXPECT_EQ(most_checkpoints(plan), 4u) << "and the best";
  policy.keep_last = 9;
  EXPECT_EQ(most_checkpoints(plan), 9u) << "eight evaluations, of which each may be the best, and the last";
  plan.spec.schedule.steps = 1'000'000'000'000;
  policy.every = 1, policy.keep_every = 7;
  EXPECT_EQ(most_checkpoints(plan), 9u + 142'857'142'855u + 2u) << "at once, and not save by save";
  plan.spec.schedule.steps = 17;
  plan.spec.phase = {.number = 2, .count = 2, .first = 6, .last = 17, .borders = {6}, .trainers = {1, 2}};
  policy.every = 4, policy.keep_last = 1, policy.keep_every = 0, policy.best = "none";
  EXPECT_EQ(most_checkpoints(plan), 3u) << "the border too";
}

}  // namespace
}  // namespace llmc::report
