// Products in the plan's JSON: their factors, where they are not 1, and their scales.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "compiler/tools/report/plan_report.h"
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

}  // namespace
}  // namespace llmc::report
