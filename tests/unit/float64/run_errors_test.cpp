#include "compiler/tools/float64/run_errors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "compiler/tools/float64/rounding.h"
#include "small_spec.h"

namespace llmc::float64 {
namespace {

class Runs : public testing::Test {
 protected:
  /// Takes a tensor of ones, and of what the errors make of it.
  void take(const std::string& name, double error, std::optional<double> of_rounding) {
    std::vector<double> exact(4, 1.0), found(4, 1 + error), rounded(4, 1 + of_rounding.value_or(0));
    const auto matrix = [](std::vector<double>& elements) { return Matrix{elements.data(), 1, 4, 4}; };
    errors_->take(TensorClass::gradients,
                  {matrix(exact), matrix(found), of_rounding ? std::optional(matrix(rounded)) : std::nullopt},
                  [&] { return name; });
  }
  const ClassError& gradients() const { return errors_->classes()[static_cast<std::size_t>(TensorClass::gradients)]; }

  plan::Plan plan_ = plan::make_plan(small_spec({"precision.compute=fp32"}).spec);
  std::optional<RunErrors> errors_{plan_};
  const double bound_ = bound_of(TensorClass::gradients, plan_.spec);
};

TEST_F(Runs, ErrorsThatAModelMagnifiesAreNoFault) {
  take("k_proj.bias", 5 * bound_, {});
  EXPECT_EQ(gradients().bound, bound_);
  EXPECT_GT(gradients().worst, gradients().bound);
  errors_.emplace(plan_);
  take("k_proj.bias", 5 * bound_, bound_);
  EXPECT_NEAR(gradients().bound, 8 * bound_, 1e-9);
  EXPECT_LE(gradients().worst, gradients().bound);
}

TEST_F(Runs, TheWorstTensorIsTheLargestPartOfItsBound) {
  take("magnifies", 5 * bound_, bound_);
  take("q_proj.weight", 2 * bound_, bound_ / 100);
  EXPECT_EQ(gradients().where, "q_proj.weight");
  EXPECT_EQ(gradients().bound, bound_);
  take("v_proj.weight", std::nan(""), bound_);
  EXPECT_EQ(gradients().where, "v_proj.weight");
  EXPECT_FALSE(gradients().worst <= gradients().bound);
}

TEST_F(Runs, ATensorThatIsZeroExactly) {
  std::vector<double> zero = {0, 0}, one = {0, 1e-9};
  const Matrix exact{zero.data(), 1, 2, 2}, found{one.data(), 1, 2, 2};
  errors_->take(TensorClass::gradients, {exact, found, exact}, [] { return "k_proj.bias"; });
  EXPECT_FALSE(gradients().worst <= gradients().bound) << "rounding leaves it 0";
  errors_.emplace(plan_);
  errors_->take(TensorClass::gradients, {exact, found, found}, [] { return "k_proj.bias"; });
  EXPECT_LE(gradients().worst, gradients().bound);
}

/// As with optimizer.rate_scale of 0.
TEST_F(Runs, WeightsThatStayAsTheyAreHaveNoError) {
  std::vector<double> weights(static_cast<std::size_t>(plan_.parameters.elements), 0.5), gradients(weights.size(), 1.0);
  const auto flat = [&](std::vector<double>& elements) {
    return Matrix{elements.data(), 1, plan_.parameters.elements, plan_.parameters.elements};
  };
  ScheduledOp launch{};
  launch.step = 1;
  errors_->take_gradients(launch, {flat(gradients), flat(gradients), {}}, weights);
  errors_->take_weights(launch, false, {flat(weights), flat(weights), {}});
  const ClassError& error = errors_->classes()[static_cast<std::size_t>(TensorClass::parameters)];
  EXPECT_EQ(error.worst, 0) << "0 of 0";
  EXPECT_FALSE(error.where.empty());
}

TEST(Rounding, ErrsWithinTheBoundOfEachElement) {
  std::vector<double> elements(64, 2.0), kept(64, 0.0);
  graph::Graph graph;
  graph::Op op{.kind = graph::OpKind::linear, .name = "o"};
  OpRun run{graph, {}, op, {}, {}};
  for (std::vector<double>* of : {&elements, &kept}) {
    op.outputs.push_back(graph.add({.name = "t", .dtype = DType::bf16, .rows = 1, .cols = 64}));
    OpValue value;
    value.matrix = {of->data(), 1, 64, 64};
    run.outputs.push_back(value);
  }
  run.outputs[1].exact = true;
  Rounding(0).add(run);
  double largest = 0;
  for (const double e : elements) largest = std::max(largest, std::abs(e - 2));
  const double bound = allowed(run.outputs[0], 0, 0, 2, DType::bf16);
  EXPECT_LE(largest, bound);
  EXPECT_GT(largest, 0.9 * bound);
  EXPECT_EQ(kept, std::vector<double>(64, 0.0)) << "what every kernel gives has no error";
  const std::vector<double> first = std::exchange(elements, std::vector<double>(64, 2.0));
  run.outputs[0].matrix.data = elements.data();
  Rounding(1).add(run);
  EXPECT_NE(elements, first) << "each draw has its own errors";
}

}  // namespace
}  // namespace llmc::float64
