// Muon in the plan: its regions, the order of a step for each value of parallel.shard, owners of matrices.
#include "compiler/ops/muon/muon.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "compiler/graph/orthogonal.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/price.h"
#include "compiler/plan/schedule_walk.h"
#include "compiler/plan/step_time.h"
#include "program/matrix_owners.h"
#include "small_spec.h"

namespace llmc::plan {
namespace {

using namespace graph;

Plan of_muon(std::vector<std::string> overrides = {}) {
  overrides.insert(overrides.begin(), "optimizer.kind=muon");
  return make_plan(small_spec(overrides).spec);
}

/// The optimizer's pass, a line for each item.
std::string step_text(const Plan& plan) {
  std::string text;
  bool inside = false;
  for (const std::string& line : text_lines(plan.schedule, plan.graph)) {
    if (line[0] != ' ')
      inside = line == "optimizer_step:";
    else if (inside)
      text += line + "\n";
  }
  return text;
}

constexpr const char* kOrthogonalised = R"(    on its owner: run orthogonalise_q_proj
    on its owner: run orthogonalise_k_proj
    on its owner: run orthogonalise_v_proj
    on its owner: run orthogonalise_o_proj
    on its owner: run orthogonalise_gate_proj
    on its owner: run orthogonalise_up_proj
    on its owner: run orthogonalise_down_proj
)";

TEST(Muon, HasAnOrderForEachShard) {
  const auto of = [](const std::string& shard) {
    return step_text(of_muon({"parallel.world_size=2", "parallel.shard=" + shard}));
  };
  const std::string matrices = kOrthogonalised, end = "    send return_layer\n  join\n  run optimizer\n";
  EXPECT_EQ(of("none"), "  run prepare_optimizer\n  layers up:\n" + matrices + end)
      << "every rank has the momentum of all layers";
  EXPECT_EQ(
      of("optimizer"),
      "  run prepare_optimizer\n  layers up:\n    send gather_momentum_layer\n  join\n  layers up:\n" + matrices + end)
      << "whole gradients hold all layers at once";
  const std::string one =
      "  run prepare_optimizer\n  layers up:\n    send gather_momentum_layer\n    join\n" + matrices;
  EXPECT_EQ(of("gradients"), one + end);
  EXPECT_EQ(of("parameters"), one + end);
}

/// Results of a layer are on their way while the next one's matrices are orthogonalised, if ranks have whole gradients.
TEST(Muon, HidesResultsBehindTheNextLayer) {
  for (const auto& [shard, hidden] :
       {std::pair("none", true), std::pair("optimizer", true), std::pair("gradients", false)}) {
    const Plan plan = of_muon({"parallel.world_size=2", std::string("parallel.shard=") + shard});
    for (std::size_t r = 0; r < plan.graph.regions.size(); ++r) {
      const Overlap overlap = overlap_of(plan.schedule, r);
      const std::string& name = plan.graph.regions[r].name;
      EXPECT_EQ(overlap.optimizer, hidden && name == "return_layer") << shard << ", " << name;
    }
  }
}

TEST(Muon, HasTheOthersWithAdamW) {
  const Plan plan = of_muon({"metrics.per_parameter=false"});
  std::vector<std::string> names;
  for (const Region& region : plan.graph.regions)
    if (region.part == Part::prepare || region.part == Part::optimizer)
      for (const Op& op : region.ops) {
        names.push_back(op.name);
        const auto* update = std::get_if<ops::UpdateAttributes>(&op.attributes);
        if (!update) continue;
        for (std::size_t i = 0; i < plan.graph.groups.size(); ++i)
          EXPECT_EQ(holds(update->groups, static_cast<int>(i)),
                    (plan.graph.groups[i].role == ParameterRole::matrices) == (op.name != "adamw"))
              << op.name << ", " << plan.graph.groups[i].name;
      }
  EXPECT_EQ(names, (std::vector<std::string>{"gradient_norm", "sum_gradient_partial", "sum_results", "gradient_clip",
                                             "muon_momentum", "muon", "adamw"}));
  const auto state = [](const Plan& of) {
    std::int64_t elements = 0;
    for (const HostBuffer& buffer : of.layout.buffers)
      if (buffer.use == Use::state) elements += buffer.elements;
    return elements;
  };
  std::int64_t matrices = 0;
  for (const Slice& slice : plan.parameters.slices) matrices += slice.group == 0 ? slice.rows * slice.pitch : 0;
  EXPECT_GT(matrices, 0);
  EXPECT_LE(state(plan), state(make_plan(small_spec().spec)) - matrices) << "one number for each of these, not two";
}

/// 20 m^2 n + 10 m^3 for five iterations, m the shorter side.
TEST(Muon, MultipliesThreeTimesAnIteration) {
  for (const int iterations : {1, 5}) {
    const Plan plan = of_muon({"optimizer.muon.iterations=" + std::to_string(iterations)});
    const auto matrices = orthogonal_matrices(plan.graph, plan.spec.optimizer.kind);
    ASSERT_EQ(matrices.size(), 7u);
    const std::vector<double> flops = orthogonalising_flops(matrices, iterations);
    std::vector<double> found(matrices.size());
    for (const Launch& launch : plan.launches) {
      const int matrix = plan.graph.regions[launch.region_index].matrix;
      if (launch.call == ops::Call::product && matrix != kNoMatrix) {
        found[static_cast<std::size_t>(matrix)] += launch.flops;
        EXPECT_EQ(launch.times, plan.graph.layers());
        EXPECT_TRUE(launch.per_step);
      }
    }
    EXPECT_EQ(found, flops);
    std::set<std::string> names;
    for (const Product& product : plan.products)
      if (product.name.starts_with("polynomial_") || product.name.starts_with("iterate_")) names.insert(product.name);
    std::set<std::pair<std::int64_t, std::int64_t>> shapes;
    for (const OrthogonalMatrix& matrix : matrices) shapes.insert({matrix.rows, matrix.cols});
    std::set<std::int64_t> sides;
    for (const auto& [rows, cols] : shapes) sides.insert(std::min(rows, cols));
    EXPECT_EQ(names.size(), shapes.size() + sides.size()) << "equal matrices share products, and so do iterations";
  }
  const Plan polar = of_muon({"optimizer.muon.coefficients=polar_express", "optimizer.muon.iterations=7"});
  const std::vector<ops::Polynomial> all = ops::polynomials(polar.spec.optimizer);
  EXPECT_NE(all[3], all[4]);
  EXPECT_EQ(all[4], all[6]) << "the last is repeated";
}

TEST(Muon, DealsMatricesByTheirCost) {
  const std::vector<double> costs = {4, 1, 1, 4, 10, 10, 10};
  for (const int ranks : {1, 2, 3, 8, 64}) {
    const MatrixOwners owners(ranks, 16, costs);
    std::vector<double> work(static_cast<std::size_t>(ranks));
    for (std::size_t layer = 0; layer < 16; ++layer)
      for (std::size_t i = 0; i < costs.size(); ++i) work[static_cast<std::size_t>(owners.of(layer, i))] += costs[i];
    EXPECT_EQ(work, owners.work());
    const double all = std::accumulate(work.begin(), work.end(), 0.0);
    EXPECT_EQ(all, 16 * 40);
    EXPECT_LE(std::ranges::max(work), all / ranks + 10) << ranks;
    EXPECT_EQ(work[static_cast<std::size_t>(owners.busiest())], std::ranges::max(work));
  }
  EXPECT_EQ(MatrixOwners(8, 1, costs).of(0, 4), 0) << "the costliest first, to the first rank";
  EXPECT_EQ(MatrixOwners(8, 1, costs).of(0, 6), 2);
}

/// Launches, their sums and their times are those of one rank: of the one with most FLOPs.
TEST(Muon, CountsTheMatricesOfTheBusiestRank) {
  for (const int ranks : {1, 2, 5, 64}) {
    const Plan plan = of_muon({"parallel.world_size=" + std::to_string(ranks), "batch.tokens=6144"});
    const MatrixOwners owners = *matrix_owners(plan);
    double products = 0, all = 0, seconds = 0;
    std::int64_t launches = 0;
    for (const Launch& launch : plan.launches) {
      const auto times = static_cast<double>(plan.times_a_step(launch));
      launches += plan.times_a_step(launch);
      all += times * launch.flops;
      seconds += times * price(plan, launch).seconds;
      if (launch.call == ops::Call::product && plan.graph.regions[launch.region_index].matrix != kNoMatrix)
        products += times * launch.flops;
    }
    EXPECT_DOUBLE_EQ(products, std::ranges::max(owners.work())) << ranks;
    EXPECT_EQ(plan.cost.launches_per_step, launches);
    EXPECT_NEAR(plan.cost.hardware_flops_per_step / all, 1, 1e-9);
    EXPECT_NEAR(plan.cost.time.seconds / seconds, 1, 1e-9) << "on the CPU a step is the sum of its launches";
    std::vector<double> sum(plan.graph.regions.size());
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<std::int64_t> runs = matrix_runs(plan, rank);
      for (std::size_t r = 0; r < runs.size(); ++r) sum[r] += static_cast<double>(runs[r]);
    }
    for (std::size_t r = 0; r < sum.size(); ++r)
      EXPECT_EQ(sum[r], plan.graph.regions[r].matrix == kNoMatrix ? 0 : plan.graph.layers());
  }
}

/// The wire has the momentum once and the results once, in fp32.
TEST(Muon, SaysWhatItCostsOnTheWire) {
  const auto bytes = [](const Plan& plan) { return plan.cost.wire_bytes_per_step; };
  const Plan one = of_muon({"parallel.world_size=1"});
  EXPECT_EQ(bytes(one), 0);
  for (const auto& [shard, times] :
       {std::pair("none", 2.0), std::pair("optimizer", 2.0), std::pair("gradients", 2.0)}) {
    const std::vector<std::string> ranks = {"parallel.world_size=4", "batch.tokens=192",
                                            std::string("parallel.shard=") + shard};
    const Plan muon = of_muon(ranks), adamw = make_plan(small_spec(ranks).spec);
    double matrices = 0;
    for (std::size_t layer = 0; layer < 3; ++layer)
      matrices += 4.0 * static_cast<double>(
                            muon.parameters.buckets[muon.parameters.first_bucket.at(Block::layer) + layer].elements);
    EXPECT_NEAR(bytes(muon) - bytes(adamw), times * matrices * 3 / 4, 1) << shard;
  }
}

}  // namespace
}  // namespace llmc::plan
