// Tests that a tensor is found overwritten where ops read it, whichever part of a buffer they name it by.
#include "compiler/tools/float64/shadow_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "small_spec.h"

namespace llmc::float64 {
namespace {

using namespace graph;

class ShadowMemoryTest : public testing::Test {
 protected:
  struct Operand {
    ScheduledOp launch;
    TensorId id = kNone;
    Extent extent = {};
    std::vector<std::byte> bytes = {};
  };

  /// The operand named so of the first op of a layer that has it.
  Operand operand(const std::string& name, std::int64_t layer = 0) const {
    for (const ScheduledOp& launch : scheduled_ops(plan_, 1)) {
      const Op& op = plan_.graph.regions[launch.region].ops[launch.op];
      std::vector<TensorId> ids = op.inputs;
      ids.insert(ids.end(), op.outputs.begin(), op.outputs.end());
      for (const TensorId id : ids) {
        if (plan_.graph.at(id).name != name || launch.layer != layer) continue;
        Operand found{launch, id, extent_of(plan_, plan_.graph.regions[launch.region], id)};
        found.bytes.resize(static_cast<std::size_t>(found.extent.bytes()));
        return found;
      }
    }
    ADD_FAILURE() << "no op has %" << name;
    return {};
  }
  static void set(Operand& o, std::int64_t row, std::int64_t column, float value) {
    std::memcpy(o.bytes.data() + static_cast<std::size_t>((row * o.extent.pitch + column) * 4), &value, sizeof value);
  }
  void note(const Operand& o) { memory_.note(o.launch, o.id, o.extent, o.bytes); }
  std::optional<Worst> changed(const Operand& o) const { return memory_.changed(o.launch, o.id, o.extent, o.bytes); }

  const plan::Plan plan_ = plan::make_plan(small_spec({"precision.compute=fp32"}).spec);
  ShadowMemory memory_{plan_};
};

TEST_F(ShadowMemoryTest, NamesTheElementThatChanged) {
  Operand x = operand("swiglu_out");
  EXPECT_FALSE(changed(x)) << "nothing was noted";
  set(x, 2, 3, 1.5f);
  note(x);
  EXPECT_FALSE(changed(x));
  set(x, 2, 3, -4.0f);
  const std::optional<Worst> worst = changed(x);
  ASSERT_TRUE(worst);
  EXPECT_EQ(std::pair(worst->row, worst->column), std::pair(std::int64_t{2}, std::int64_t{3}));
  EXPECT_EQ(std::pair(worst->exact, worst->found), std::pair(1.5, -4.0));
  EXPECT_GT(worst->of_bound, 1);
  EXPECT_FALSE(changed(operand("swiglu_out", 1))) << "of another layer, in the same memory or not";
}

TEST_F(ShadowMemoryTest, PaddingIsNoPartOfATensor) {
  Operand x = operand("swiglu_out");
  ASSERT_GT(x.extent.pitch, x.extent.cols);
  note(x);
  set(x, 0, x.extent.cols, 1);
  EXPECT_FALSE(changed(x));
  set(x, 0, x.extent.cols - 1, 1);
  EXPECT_TRUE(changed(x));
}

/// The optimizer reads the gradients of all parameters as one buffer.
TEST_F(ShadowMemoryTest, AGradientIsAPartOfTheBufferOfAll) {
  const TensorId flat = plan_.graph.host(Use::gradients);
  Operand all = operand(plan_.graph.at(flat).name);
  ASSERT_EQ(all.id, flat);
  const auto gradient = std::ranges::find_if(
      plan_.graph.tensors, [](const Tensor& t) { return t.role == Role::gradient && t.scope == Scope::layer; });
  Operand part = operand(gradient->name, 1);
  note(part);
  const Place place = place_of(plan_, part.launch, part.id);
  ASSERT_GT(place.column, 0);
  set(all, 0, place.column - 1, 1);
  set(all, 0, place.column + part.extent.pitch * part.extent.rows, 1);
  EXPECT_FALSE(changed(all)) << "what no op wrote may be anything";
  set(all, 0, place.column + 1, 1);
  const std::optional<Worst> worst = changed(all);
  ASSERT_TRUE(worst);
  EXPECT_EQ(worst->column, place.column + 1);
  note(all);
  EXPECT_TRUE(changed(part)) << "and the other way round";
}

TEST_F(ShadowMemoryTest, TheHostWritesItsInputsAnew) {
  Operand tokens = operand("tokens"), table = operand("rope_table");
  note(tokens), note(table);
  EXPECT_TRUE(memory_.knows(tokens.launch, tokens.id, tokens.extent));
  memory_.forget_inputs();
  EXPECT_FALSE(memory_.knows(tokens.launch, tokens.id, tokens.extent));
  EXPECT_TRUE(memory_.knows(table.launch, table.id, table.extent)) << "but not its constants";
}

}  // namespace
}  // namespace llmc::float64
