#include "compiler/tools/float64/reduce.h"

#include <gtest/gtest.h>

#include "compiler/plan/plan.h"
#include "small_spec.h"

namespace llmc::float64 {
namespace {

spec::Spec reduced(const std::vector<std::string>& more, bool short_pass) {
  std::vector<std::string> words = {"model.hidden_size=64",      "model.head_dim=16",   "model.intermediate_size=64",
                                    "model.num_hidden_layers=6", "batch.micro_batch=4", "batch.tokens=192"};
  words.insert(words.end(), more.begin(), more.end());
  const spec::Spec spec = small_spec(words).spec;
  return reduce(spec, plan::make_plan(spec), 2, "train.bin", short_pass).spec;
}

/// Weight gradients in fp8 are sums over tokens, of which a sequence has 24.
TEST(Reduce, AShortPassKeepsAMultipleOf16TokensForFp8Full) {
  EXPECT_EQ(reduced({"precision.matmul=fp8"}, true).batch.micro_batch, 1);
  EXPECT_EQ(reduced({"precision.matmul=fp8_full"}, true).batch.micro_batch, 2);
  EXPECT_EQ(reduced({"precision.matmul=fp8_full"}, false).batch.micro_batch, 4);
  EXPECT_EQ(reduced({"precision.matmul=mxfp8"}, true).batch.micro_batch, 4) << "of 32 tokens";
}

TEST(Reduce, ALayerInBf16AtEitherEndIsKeptOnce) {
  const spec::Spec ends =
      reduced({"precision.matmul=fp8", "precision.fp8.first_layers=2", "precision.fp8.last_layers=1"}, false);
  EXPECT_EQ(ends.model.num_hidden_layers, 2);
  EXPECT_EQ(ends.fp8.first_layers, 1);
  EXPECT_EQ(ends.fp8.last_layers, 0);
  const spec::Spec last = reduced({"precision.matmul=fp8", "precision.fp8.last_layers=2"}, false);
  EXPECT_EQ(last.fp8.first_layers, 0);
  EXPECT_EQ(last.fp8.last_layers, 1);
}

}  // namespace
}  // namespace llmc::float64
