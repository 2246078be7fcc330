// Numbers of a spec that kernels in fp32 do not have, or from which they would make quotients that are not finite.
#include <fmt/format.h>

#include "../facts.h"
#include "compiler/spec/load.h"
#include "good_spec.h"

namespace llmc::spec {
namespace {

/// A smaller number is 0 in fp32, where a weight without a gradient would become 0 / 0.
TEST(Numbers, ThatKeepQuotientsFiniteAreNotZeroInFp32) {
  for (const char* key : {"optimizer.eps", "model.rms_norm_eps"}) {
    const LoadResult small = load_text(kGood, "a.yaml", {std::string(key) + "=1e-38"});
    ASSERT_EQ(codes_of(small), "E0205") << key;
    const std::string said = small.diagnostics[0].message + "; " + small.diagnostics[0].advice;
    EXPECT_TRUE(test::has_facts(said, {key, "1e-38", "from 1e-30 to 1"})) << said;
    EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {std::string(key) + "=1e-30"})), "") << key;
  }
}

/// Kernels have the numbers of a spec in fp32.
TEST(Numbers, ThatFp32DoesNotHave) {
  const auto said = [](const std::string& word) {
    const LoadResult loaded = load_text(kGood, "a.yaml", {word});
    EXPECT_EQ(codes_of(loaded), "E0205") << word;
    return loaded.diagnostics.empty() ? "" : loaded.diagnostics[0].message + "; " + loaded.diagnostics[0].advice;
  };
  for (const char* key : {"loss.z", "optimizer.clip_norm", "optimizer.lr"}) {
    EXPECT_TRUE(
        test::has_facts(said(std::string(key) + "=1e-300"), {key, "too small for fp32", "0, or at least 1e-30"}));
    EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {std::string(key) + "=0"})), "") << key;
  }
  EXPECT_TRUE(test::has_facts(said("init.embedding_std=1e-46"), {"too small for fp32", "write at least 1e-30"}));
  for (const char* key : {"attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling",
                          "attn_logit_softcapping", "final_logit_softcapping"})
    EXPECT_TRUE(test::has_facts(said(std::string("model.") + key + "=1e-21"), {key, "from 1e-20 to "}));
  for (const char* betas : {"[0.9, 0.999999]", "[0.99999999, 0.9]"})
    EXPECT_TRUE(test::has_facts(said(std::string("optimizer.betas=") + betas), {"from 0 to 0.99999"}));
}

}  // namespace
}  // namespace llmc::spec
