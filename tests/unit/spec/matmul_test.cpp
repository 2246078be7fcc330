// precision.matmul: where each kind of product exists, and what an override leaves behind.
#include <gtest/gtest.h>

#include "../facts.h"
#include "compiler/spec/load.h"
#include "good_spec.h"

namespace llmc::spec {
namespace {

TEST(Load, Bf16x3IsAChoiceOfFp32RunsWithTiles) {
  const std::vector<std::string> fp32 = {"precision.compute=fp32", "target.arch=sapphirerapids"};
  std::vector<std::string> automatic = fp32, split = fp32;
  automatic.push_back("precision.matmul=auto"), split.push_back("precision.matmul=bf16x3");
  EXPECT_EQ(resolve(kGood, fp32).spec.matmul, Matmul::automatic);
  EXPECT_EQ(resolve(kGood, split).spec.matmul, Matmul::bf16x3);
  EXPECT_EQ(fingerprint(resolve(kGood, automatic).spec), fingerprint(resolve(kGood, fp32).spec));
  EXPECT_NE(fingerprint(resolve(kGood, split).spec), fingerprint(resolve(kGood, fp32).spec));
  EXPECT_EQ(model_fingerprint(resolve(kGood, split).spec), model_fingerprint(resolve(kGood, fp32).spec))
      << "a checkpoint goes on in either";
  // Only the machine that builds knows the meaning of native.
  EXPECT_EQ(resolve(kGood, {"precision.compute=fp32", "precision.matmul=bf16x3"}).spec.matmul, Matmul::bf16x3);
  const auto advice = [](const std::vector<std::string>& overrides) {
    const LoadResult result = load_text(kGood, "a.yaml", overrides);
    return result.diagnostics.size() == 1 && result.diagnostics[0].code == "E0325" ? result.diagnostics[0].advice : "";
  };
  EXPECT_TRUE(test::has_facts(advice({"precision.matmul=bf16x3"}), {"compute: fp32", "matmul: auto"}));
  EXPECT_TRUE(
      test::has_facts(advice({"precision.matmul=bf16x3", "precision.compute=fp32", "target.arch=icelake-server"}),
                      {"matmul: auto", "arch: sapphirerapids"}));
}

TEST(Load, Tf32IsAChoiceOfFp32RunsOnCuda) {
  const std::vector<std::string> tf32 = {"precision.matmul=tf32", "precision.compute=fp32", "target.kind=cuda"};
  std::vector<std::string> automatic = tf32;
  automatic[0] = "precision.matmul=auto";
  EXPECT_EQ(resolve(kGood, tf32).spec.matmul, Matmul::tf32);
  EXPECT_NE(fingerprint(resolve(kGood, tf32).spec), fingerprint(resolve(kGood, automatic).spec));
  EXPECT_EQ(model_fingerprint(resolve(kGood, tf32).spec), model_fingerprint(resolve(kGood, automatic).spec))
      << "a checkpoint goes on in either";
  for (const char* other : {"precision.compute=bf16", "target.kind=cpu"}) {
    std::vector<std::string> words = tf32;
    words[other == std::string("target.kind=cpu") ? 2 : 1] = other;
    EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", words)), "E0329") << other;
  }
}

TEST(Load, Fp8IsAChoiceOfBf16RunsWhoseArchHasItsScales) {
  const std::vector<std::string> fp8 = {"precision.matmul=fp8"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = fp8;
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_NE(fingerprint(resolve(kGood, fp8).spec), fingerprint(resolve(kGood).spec));
  EXPECT_EQ(model_fingerprint(resolve(kGood, fp8).spec), model_fingerprint(resolve(kGood).spec))
      << "a checkpoint goes on in either";
  const Fp8& given =
      resolve(kGood, with({"precision.fp8.first_layers=1", "precision.fp8.fast_accumulation=none"})).spec.fp8;
  EXPECT_EQ(given.first_layers, 1);
  EXPECT_FALSE(given.accumulates_fast(false));
  const Fp8& usual = resolve(kGood, fp8).spec.fp8;
  EXPECT_TRUE(usual.accumulates_fast(false) && !usual.accumulates_fast(true));
  for (const auto& [arch, code] : std::map<std::string, std::string>{
           {"90a", ""}, {"90", ""}, {"80", ""}, {"87", ""}, {"89", "E0327"}, {"100a", "E0327"}, {"120", "E0327"}})
    EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with({"target.kind=cuda", "target.arch=[" + arch + "]"}))), code)
        << arch;
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with({"target.kind=cuda", "target.arch=[90, 90a]"}))), "");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with({"target.kind=cuda", "target.arch=[90a, 80]"}))), "E0327");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with({"precision.compute=fp32"}))), "E0327");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with({"precision.fp8.first_layers=9223372036854775807"}))), "E0205");
  Target both;
  both.kind = TargetKind::cuda;
  both.arch = {"90", "100"};
  EXPECT_FALSE(has_code_products(Matmul::fp8, both));
  EXPECT_TRUE(has_code_products(Matmul::fp8_tensor, both));
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with({"model.intermediate_size=88"}))), "E0328");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with({"model.vocab_size=1000"}))), "");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with({"model.vocab_size=1000", "precision.fp8.head=forward"}))),
            "E0328");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with({"model.vocab_size=1008", "precision.fp8.head=forward_dgrad"}))),
            "");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"precision.fp8.head=off"})), "E0309");
  const std::vector<std::string> odd = {"batch.sequence_length=40", "batch.tokens=160"};
  const auto full = [&](const char* rows) {
    std::vector<std::string> words = odd;
    words.insert(words.end(), {"precision.matmul=fp8_full", rows});
    return codes_of(load_text(kGood, "a.yaml", words));
  };
  EXPECT_EQ(full("batch.micro_batch=2"), "") << "80 tokens";
  EXPECT_EQ(full("batch.micro_batch=1"), "E0328") << "40 tokens";
  EXPECT_EQ(full("batch.micro_batch=auto"), "E0328");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", with(odd))), "") << "no sum over tokens";
}

TEST(Load, Fp8TensorRunsOnEveryArchAndSparesTheLayersAtTheEnds) {
  const auto loaded = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"precision.matmul=fp8_tensor", "model.num_hidden_layers=3"};
    words.insert(words.end(), more.begin(), more.end());
    return load_text(kGood, "a.yaml", words);
  };
  const LoadResult usual = loaded({});
  ASSERT_TRUE(usual.resolved) << render(usual.diagnostics);
  EXPECT_EQ(usual.resolved->spec.fp8.first_layers, 1);
  EXPECT_EQ(usual.resolved->spec.fp8.last_layers, 1);
  EXPECT_EQ(loaded({"precision.fp8.first_layers=0"}).resolved->spec.fp8.first_layers, 0);
  EXPECT_NE(fingerprint(loaded({"precision.fp8.first_layers=0"}).resolved->spec), fingerprint(usual.resolved->spec));
  EXPECT_EQ(resolve(kGood, {"precision.matmul=fp8"}).spec.fp8.last_layers, 0) << "with scales of rows";
  EXPECT_EQ(loaded({"model.num_hidden_layers=2"}).resolved->spec.fp8.last_layers, 0) << "none would be left";
  EXPECT_EQ(codes_of(loaded({"precision.fp8.first_layers=2"})), "E0327");
  for (const char* arch : {"80", "89", "90a", "100a", "103", "120"}) {
    const LoadResult on = loaded({"target.kind=cuda", std::string("target.arch=[") + arch + "]"});
    EXPECT_EQ(codes_of(on), "") << arch;
    EXPECT_EQ(multiplies_codes(on.resolved->spec), std::string(arch) != "80") << arch;
  }
  EXPECT_EQ(codes_of(loaded({"target.kind=cuda", "target.arch=[90a, 120]"})), "");
  EXPECT_EQ(codes_of(loaded({"target.kind=cuda", "target.arch=[86, 89]"})), "E0327") << "one alone has fp8 products";
  EXPECT_EQ(codes_of(loaded({"precision.compute=fp32"})), "E0327");
  EXPECT_EQ(codes_of(loaded({"batch.sequence_length=40", "batch.tokens=160", "batch.micro_batch=1"})), "E0328");
}

TEST(Load, Mxfp8IsPlannedForBlackwellAndNeedsBlocksOf32) {
  const auto loaded = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"precision.matmul=mxfp8", "model.num_hidden_layers=3"};
    words.insert(words.end(), more.begin(), more.end());
    return load_text(kGood, "a.yaml", words);
  };
  const LoadResult usual = loaded({});
  ASSERT_TRUE(usual.resolved) << render(usual.diagnostics);
  EXPECT_EQ(usual.resolved->spec.fp8.first_layers, 0);
  EXPECT_FALSE(is_planned_only(usual.resolved->spec)) << "a cpu computes the same numbers in bf16";
  for (const auto& [arch, code] : std::map<std::string, std::string>{
           {"80", ""}, {"87", ""}, {"89", "E0327"}, {"90a", "E0327"}, {"100", ""}, {"103a", ""}, {"120", "E0327"}}) {
    const LoadResult on = loaded({"target.kind=cuda", "target.arch=[" + arch + "]"});
    EXPECT_EQ(codes_of(on), code) << arch;
    if (on.resolved) {
      EXPECT_EQ(is_planned_only(on.resolved->spec), arch.starts_with("10")) << arch;
    }
  }
  EXPECT_FALSE(
      is_planned_only(resolve(kGood, {"precision.matmul=fp8_tensor", "target.kind=cuda", "target.arch=[100]"}).spec));
  EXPECT_EQ(codes_of(loaded({"target.kind=cuda", "target.arch=[80, 100]"})), "E0327") << "one alone has its products";
  EXPECT_EQ(codes_of(loaded({"precision.compute=fp32"})), "E0327");
  EXPECT_EQ(codes_of(loaded({"precision.fp8.head=forward"})), "E0309");
  EXPECT_EQ(codes_of(loaded({"precision.fp8.fast_accumulation=all"})), "E0309");
  EXPECT_EQ(codes_of(loaded({"precision.fp8.first_layers=1"})), "");
  const std::vector<std::string> odd = {"model.hidden_size=272", "model.head_dim=32"};
  EXPECT_EQ(codes_of(loaded(odd)), "E0328");
  EXPECT_EQ(codes_of(loaded({"model.intermediate_size=112"})), "E0328");
  EXPECT_EQ(codes_of(loaded({"model.head_dim=6"})), "E0328");
  EXPECT_EQ(codes_of(loaded({"batch.sequence_length=48", "batch.tokens=192", "batch.micro_batch=1"})), "E0328");
  EXPECT_EQ(codes_of(loaded({"batch.sequence_length=48", "batch.tokens=192", "batch.micro_batch=2"})), "");
}

TEST(Load, AnOverrideWithoutFp8LeavesItsKeysBehind) {
  const std::string fp8 = std::string(kGood) + "precision: {matmul: fp8, fp8: {first_layers: 1}}\n";
  const LoadResult wide = load_text(fp8, "a.yaml", {"precision.matmul=auto"});
  ASSERT_TRUE(wide.resolved) << render(wide.diagnostics);
  ASSERT_EQ(wide.notes.size(), 1u);
  EXPECT_TRUE(test::has_facts(wide.notes[0], {"precision.fp8.first_layers 1", "precision.matmul auto"}));
  EXPECT_EQ(fingerprint(wide.resolved->spec), fingerprint(resolve(kGood).spec));
  const LoadResult blocks =
      load_text(std::string(kGood) + "precision: {matmul: fp8, fp8: {head: forward, first_layers: 2}}\n", "a.yaml",
                {"precision.matmul=mxfp8"});
  ASSERT_TRUE(blocks.resolved) << render(blocks.diagnostics);
  ASSERT_EQ(blocks.notes.size(), 1u);
  EXPECT_TRUE(test::has_facts(blocks.notes[0], {"precision.fp8.head forward", "precision.matmul mxfp8"}));
  EXPECT_EQ(blocks.resolved->spec.fp8.head, Fp8Head::off);
  EXPECT_EQ(blocks.resolved->spec.fp8.first_layers, 2) << "applies to both";
  // In one file, or typed, they contradict each other. So nothing says that auto alone would do.
  const LoadResult none =
      load_text(std::string(kGood) + "precision: {matmul: fp8, fp8: {first_layers: 50, last_layers: 50}}\n", "a.yaml");
  ASSERT_EQ(none.diagnostics.size(), 1u);
  EXPECT_TRUE(test::has_facts(none.diagnostics[0].advice, {"first_layers", "last_layers: 0"}));
  EXPECT_FALSE(test::has_facts(none.diagnostics[0].advice, {"auto"}));
  EXPECT_EQ(codes_of(load_text(std::string(kGood) + "precision: {matmul: auto, fp8: {first_layers: 1}}\n", "a.yaml")),
            "E0309");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"precision.fp8.first_layers=1", "precision.matmul=auto"})), "E0309");
}

}  // namespace
}  // namespace llmc::spec
