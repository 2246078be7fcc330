// Facts of a message are found in their order, and numbers only if they are whole.
#include "../facts.h"

namespace llmc::test {
namespace {

TEST(Facts, AreFoundInTheirOrder) {
  const std::string message = "error: step 15: loss 5.5 is above 5 (guards.loss)";
  EXPECT_TRUE(has_facts(message, {"step 15", "5.5", "5", "(guards.loss)"}));
  EXPECT_TRUE(has_facts(message, "guards.loss"));
  EXPECT_FALSE(has_facts(message, {"(guards.loss)", "step 15"}));
  EXPECT_FALSE(has_facts(message, {"5.5", "5.5"}));
}

TEST(Facts, NumbersAreWhole) {
  EXPECT_FALSE(has_facts("step 15", "5"));
  EXPECT_FALSE(has_facts("step 15", "step 1"));
  EXPECT_FALSE(has_facts("loss 5.25", "5"));
  EXPECT_FALSE(has_facts("loss 5.25", "25"));
  EXPECT_TRUE(has_facts("5. 25", {"5", "25"}));
  EXPECT_TRUE(has_facts("15, then 5", "5")) << "a later one";
  EXPECT_TRUE(has_facts("15 steps", " steps"));
}

}  // namespace
}  // namespace llmc::test
