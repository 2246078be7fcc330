#include "compiler/spec/load.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "../facts.h"
#include "../folder.h"
#include "good_spec.h"
#include "spec/print.h"
#include "spec/targets.h"

namespace llmc::spec {
namespace {

ReadFile disk(std::map<std::string, std::string> files) {
  return [files = std::move(files)](const std::string& path) -> std::optional<std::string> {
    const auto found = files.find(path);
    return found == files.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(Load, DefaultsAndDerivedDefaults) {
  const Spec spec = resolve(kGood).spec;
  EXPECT_EQ(spec.name, "good");
  EXPECT_EQ(spec.model.num_key_value_heads, 8);
  EXPECT_EQ(spec.model.head_dim, 32);
  EXPECT_EQ(spec.model.intermediate_size, 704);  // 8/3 * 256 = 682.7, to a multiple of 64
  EXPECT_EQ(spec.compute, DType::bf16);
  EXPECT_EQ(spec.batch.micro_batch, 0);
  EXPECT_EQ(spec.memory.budget, std::int64_t{16} << 30);
  EXPECT_EQ(spec.optimizer.betas[1], 0.95);
  EXPECT_EQ(spec.schedule.warmup_steps, 400);
  EXPECT_EQ(spec.init.linear.kind, InitStd::Kind::fan_in);
  EXPECT_EQ(spec.init.residual.kind, InitStd::Kind::depth_scaled);
  EXPECT_EQ(spec.target.arch, std::vector<std::string>{"native"});
  EXPECT_TRUE(spec.deterministic);
  EXPECT_EQ(spec.model.rope_scaling.type, RopeType::none);
  EXPECT_TRUE(spec.data.validation.path.empty());
}

TEST(Load, AnotherOptimizerLeavesKeysBehind) {
  const std::string muon = std::string(kGood) + "optimizer: {kind: muon, muon: {momentum: 0.9, iterations: 6}}\n";
  const LoadResult adamw = load_text(muon, "a.yaml", {"optimizer.kind=adamw"});
  ASSERT_TRUE(adamw.resolved) << render(adamw.diagnostics);
  ASSERT_EQ(adamw.notes.size(), 1u);
  EXPECT_TRUE(test::has_facts(adamw.notes[0], {"optimizer.muon.momentum 0.9", "optimizer.muon.iterations 6",
                                               "are ignored for optimizer.kind adamw"}));
  EXPECT_EQ(fingerprint(adamw.resolved->spec), fingerprint(resolve(kGood, {"optimizer.kind=adamw"}).spec));
  const std::string int8 =
      std::string(kGood) + "precision: {compute: bf16, optimizer_state: int8}\noptimizer: {eps: 1.0e-6}\n";
  const LoadResult lion = load_text(int8, "a.yaml", {"optimizer.kind=lion"});
  ASSERT_TRUE(lion.resolved) << render(lion.diagnostics);
  EXPECT_TRUE(
      test::has_facts(lion.notes[0], {"precision.optimizer_state int8", "optimizer.eps", "optimizer.kind lion"}));
  EXPECT_EQ(lion.resolved->spec.optimizer_state, OptimizerState::fp32);
  // Typed, or in one file, they contradict each other.
  EXPECT_EQ(codes_of(load_text(muon, "a.yaml", {"optimizer.kind=adamw", "optimizer.muon.momentum=0.8"})), "E0309");
  EXPECT_EQ(codes_of(load_text(int8, "a.yaml", {"optimizer={kind: lion, eps: 1e-6}"})), "E0309");
}

TEST(Load, EveryFormOfAValue) {
  const auto with = [](const char* override_text) { return resolve(kGood, {override_text}).spec; };
  EXPECT_EQ(with("memory.recompute=full").memory.recompute.kind, Recompute::Kind::full);
  EXPECT_EQ(with("memory.recompute={every: 2}").memory.recompute.every, 2);
  EXPECT_EQ(with("memory.recompute=[norms, swiglu]").memory.recompute.ops,
            (std::vector<std::string>{"norms", "swiglu"}));
  EXPECT_EQ(with("memory.budget=h200-141gb").memory.budget, std::int64_t{137} << 30);
  EXPECT_EQ(with("batch.tokens=8Ki").batch.tokens, 8192);
  EXPECT_EQ(with("init.linear=0.02").init.linear.value, 0.02);
  EXPECT_EQ(with("optimizer.betas=[0.8, 0.99]").optimizer.betas[0], 0.8);
  EXPECT_EQ(resolve(kGood, {"data.tokenizer=t.model", "sampling.prompts=[\"a\\n\", b]"}).spec.sampling.prompts,
            (std::vector<std::string>{"a\n", "b"}));
  EXPECT_EQ(with("sampling.prompts=[\"1 20\", \"3\"]").sampling.prompts, (std::vector<std::string>{"1 20", "3"}));
  EXPECT_EQ(with("target={kind: cuda, arch: [80, 100]}").target.arch, (std::vector<std::string>{"80", "100"}));
  EXPECT_EQ(with("target.arch=znver4").target.arch, std::vector<std::string>{"znver4"});
  EXPECT_EQ(with("schedule.kind=wsd").schedule.decay_fraction, 0.2);
  EXPECT_EQ(with("model.rope_scaling=llama3").model.rope_scaling.type, RopeType::llama3);
  EXPECT_EQ(with("model.rope_scaling={type: llama3, factor: 8}").model.rope_scaling.factor, 8);
  EXPECT_EQ(with("data.train.path=*.bin").data.train.path, "*.bin");
  EXPECT_EQ(with("data.train=[{path: x.bin, format: nanogpt}]").data.train.format, "nanogpt");
  EXPECT_EQ(with("data.validation.path=v.bin").data.validation.path, "v.bin");
  EXPECT_EQ(with("data.tokenizer=a b # c").data.tokenizer, "a b # c");
}

TEST(Load, RecomputeNamesWhatTheMlpHas) {
  const auto advice = [](const std::vector<std::string>& overrides) {
    const LoadResult result = load_text(kGood, "a.yaml", overrides);
    return codes_of(result) == "E0336" ? result.diagnostics[0].advice : codes_of(result);
  };
  const std::string ungated = "model.mlp_gated=false";
  EXPECT_EQ(advice({ungated, "memory.recompute=[norms, up, activation]"}), "");
  EXPECT_EQ(advice({ungated, "memory.recompute=full"}), "");
  EXPECT_EQ(advice({"memory.recompute={layers: {0: [gate_up, swiglu]}}"}), "");
  EXPECT_TRUE(test::has_facts(advice({ungated, "memory.recompute=[norms, gate_up, swiglu]"}),
                              {"recompute: [norms, up, activation]"}));
  EXPECT_TRUE(test::has_facts(advice({ungated, "memory.recompute=[activation, swiglu]"}), {"recompute: [activation]"}));
  EXPECT_TRUE(test::has_facts(advice({"memory.recompute={layers: {0: full, 2-3: [up]}}"}),
                              {"recompute: {layers: {0: full, 2-3: [gate_up]}}"}));
}

TEST(Load, OverrideKeepsWhatItDoesNotName) {
  const Spec spec = resolve(std::string(kGood) + "optimizer: {lr: 0.5, eps: 1.0e-6}\n",
                            {"optimizer.lr=0.25", "optimizer={clip_norm: 2}"})
                        .spec;
  EXPECT_EQ(spec.optimizer.lr, 0.25);
  EXPECT_EQ(spec.optimizer.eps, 1e-6);
  EXPECT_EQ(spec.optimizer.clip_norm, 2);
}

TEST(Load, Origins) {
  const Resolved r = resolve("extends: base.yaml\nseed: 7\nmodel:\n  hidden_size: 512\n", {"optimizer.lr=0.1"},
                             disk({{"base.yaml", kGood}}));
  EXPECT_EQ(r.origins.at("seed").text(), "good.yaml:2");
  EXPECT_EQ(r.origins.at("model.hidden_size").text(), "good.yaml:4");
  EXPECT_EQ(r.origins.at("model.vocab_size").text(), "base.yaml:3");
  EXPECT_EQ(r.origins.at("optimizer.lr").text(), "override");
  EXPECT_EQ(r.origins.at("optimizer.eps").text(), "default");
  EXPECT_EQ(r.origins.at("model.head_dim").text(), "default: hidden_size / num_attention_heads");
  EXPECT_EQ(r.spec.model.head_dim, 64);
}

TEST(Load, ExtendsMergesMapsAndReplacesLists) {
  const std::string base =
      std::string(kGood) + "optimizer: {lr: 0.5, betas: [0.1, 0.2]}\nsampling: {prompts: [\"1\", \"2\"], tokens: 9}\n";
  const Spec spec = resolve("extends: base.yaml\noptimizer: {betas: [0.3, 0.4]}\nsampling: {prompts: [\"3\"]}\n", {},
                            disk({{"base.yaml", base}}))
                        .spec;
  EXPECT_EQ(spec.optimizer.lr, 0.5);
  EXPECT_EQ(spec.optimizer.betas[0], 0.3);
  EXPECT_EQ(spec.sampling.prompts, std::vector<std::string>{"3"});
  EXPECT_EQ(spec.sampling.tokens, 9);
}

TEST(Load, InheritedPathsAreRelativeToTheSpec) {
  const auto files = disk({{"shared/base/base.yaml", kGood}});
  const Resolved r =
      resolve("extends: ../shared/base/base.yaml\ndata: {tokenizer: mine.model}\n", {}, files, "specs/a.yaml");
  EXPECT_EQ(r.directory, "specs");
  EXPECT_EQ(r.spec.data.train.path, "../shared/base/train-*.bin");
  EXPECT_EQ(r.spec.data.tokenizer, "mine.model");
}

TEST(Load, TypedPathsAreRelativeToTheCurrentDirectory) {
  const auto train = [](const std::string& word, const std::string& spec) {
    return resolve(kGood, {word}, {}, spec).spec.data.train.path;
  };
  EXPECT_EQ(train("data.train.path=data/*.bin", "specs/a.yaml"), "../data/*.bin");
  EXPECT_EQ(train("data.train=[{path: data/*.bin}]", "specs/a.yaml"), "../data/*.bin");
  EXPECT_EQ(train("data.train.path=../x.bin", "a.yaml"), "../x.bin");
  EXPECT_EQ(train("data.train.path=/x.bin", "specs/a.yaml"), "/x.bin");
  const std::filesystem::path here = std::filesystem::canonical(std::filesystem::current_path());
  EXPECT_EQ(train("data.train.path=x.bin", (here / "far" / "a.yaml").string()), "../x.bin");
}

/// `..` from a folder behind a symbolic link is the parent of the real one.
TEST(Load, PathsOfALinkedFolderAreThoseOfTheRealOne) {
  const test::Folder folder;
  const std::filesystem::path root = std::filesystem::canonical(folder.path);
  const std::string word = "data.train.path=" + (std::filesystem::relative(root) / "x.bin").string();
  folder.write("deep/real/specs/a.yaml", "extends: ../base.yaml\ndata: {tokenizer: ../t.model}\n");
  folder.write("deep/real/specs/loop.yaml", "extends: ../../../near/specs/loop.yaml\n");
  folder.write("deep/real/base.yaml", kGood);
  folder.write("near/base.yaml", std::string(kGood) + "seed: 5\n");
  std::filesystem::create_directory_symlink("../deep/real/specs", root / "near/specs");
  const auto loaded = [&](const std::string& name, const std::vector<std::string>& words) {
    return load(folder / ("near/specs/" + name), words).resolved.value_or(Resolved{});
  };
  const auto found = [](const Resolved& r, const std::string& path) {
    return (std::filesystem::path(r.directory) / path).lexically_normal();
  };
  const Resolved written = loaded("a.yaml", {}), typed = loaded("a.yaml", {word});
  ASSERT_EQ(written.files.size(), 2U);
  EXPECT_EQ(written.files[1].path, root / "deep/real/base.yaml");
  EXPECT_EQ(found(written, written.spec.data.tokenizer), root / "deep/real/t.model");
  EXPECT_EQ(found(written, written.spec.data.train.path), root / "deep/real/train-*.bin");
  EXPECT_EQ(found(typed, typed.spec.data.train.path), root / "x.bin");
  EXPECT_EQ(codes_of(load(folder / "near/specs/loop.yaml", {})), "E0401");
}

TEST(Load, TheListOfOneSourceKeepsItsOtherKeyUnderAnOverride) {
  const std::string text = std::string(kGood) + "  validation:\n    - {path: v.bin, format: llmc}\n";
  const Spec spec = resolve(text, {"data.validation.path=w.bin"}).spec;
  EXPECT_EQ(spec.data.validation.path, "w.bin");
  EXPECT_EQ(spec.data.validation.format, "llmc");
}

TEST(Load, WeightDecayOfARoleFollowsFromDecayUnlessGiven) {
  const auto decays = [](const std::vector<std::string>& overrides) {
    return resolve(kGood, overrides).spec.optimizer.weight_decay_of;
  };
  using Decays = std::array<double, 4>;
  const std::string all = "optimizer.decay=all", half = "optimizer.weight_decay=0.5";
  EXPECT_EQ(decays({}), (Decays{0.1, 0.1, 0, 0}));
  EXPECT_EQ(decays({half}), (Decays{0.5, 0.5, 0, 0}));
  EXPECT_EQ(decays({half, all}), (Decays{0.5, 0.5, 0.5, 0.5}));
  EXPECT_EQ(decays({half, "optimizer.weight_decay_of.embedding=0.001"}), (Decays{0.5, 0.5, 0.001, 0}));
  EXPECT_EQ(decays({all, "optimizer.weight_decay_of={matrices: 0, vectors: 2}"}), (Decays{0, 0.1, 0.1, 2}));
}

TEST(Load, BetasOfARoleAreTheOptimizersUnlessGiven) {
  using Betas = std::array<std::array<double, 2>, 4>;
  constexpr std::array<double, 2> kAdamw = {0.9, 0.95}, kLion = {0.9, 0.99}, kOwn = {0.8, 0.995};
  const auto betas = [](const std::vector<std::string>& overrides) {
    return resolve(kGood, overrides).spec.optimizer.betas_of;
  };
  EXPECT_EQ(betas({}), (Betas{kAdamw, kAdamw, kAdamw, kAdamw}));
  EXPECT_EQ(betas({"optimizer.kind=lion"}), (Betas{kLion, kLion, kLion, kLion}));
  EXPECT_EQ(betas({"optimizer.betas_of.embedding=[0.8, 0.995]"}), (Betas{kAdamw, kAdamw, kOwn, kAdamw}));
  EXPECT_EQ(betas({"optimizer.betas=[0.8, 0.995]"}), (Betas{kOwn, kOwn, kOwn, kOwn}));
}

TEST(Load, FingerprintIsOfWhatIsCompiledIn) {
  const auto print = [](const std::vector<std::string>& overrides) {
    return fingerprint(resolve(kGood, overrides).spec);
  };
  const std::string base = print({});
  EXPECT_EQ(base.size(), 32u);
  for (const char* run_time : {"optimizer.lr=0.1", "seed=1", "data.train.path=x", "batch.tokens=16Ki",
                               "metrics.every=3", "name=other", "schedule.kind=linear", "optimizer.decay=all",
                               "schedule.weight_decay=cosine", "optimizer.weight_decay_of.vectors=1"})
    EXPECT_EQ(print({run_time}), base) << run_time;
  for (const char* compiled :
       {"model.vocab_size=4095", "precision.compute=fp32", "precision.residual=bf16", "batch.micro_batch=4",
        "memory.recompute=full", "model.rms_norm_eps=1e-6", "metrics.per_parameter=false", "deterministic=false",
        "init.embedding_std=0.03", "model.qk_norm=true", "target.arch=x86-64-v4", "memory.budget=1GiB",
        "memory.loss_chunk=1024"})
    EXPECT_NE(print({compiled}), base) << compiled;
}

TEST(Load, ANewKeyAtItsDefaultLeavesFingerprintsAsTheyWere) {
  EXPECT_EQ(canonical_text(resolve(kGood).spec).find("qk_norm"), std::string::npos);
  EXPECT_EQ(canonical_text(resolve(kGood, {"model.qk_norm=false"}).spec), canonical_text(resolve(kGood).spec));
  EXPECT_NE(canonical_text(resolve(kGood, {"model.qk_norm=true"}).spec).find("model.qk_norm=true\n"),
            std::string::npos);
  EXPECT_NE(model_fingerprint(resolve(kGood, {"model.qk_norm=true"}).spec), model_fingerprint(resolve(kGood).spec));
  for (const char* word : {"sliding_window", "layer_types"})
    EXPECT_EQ(canonical_text(resolve(kGood).spec).find(word), std::string::npos) << word;
  const auto model = [](const std::string& types) {
    return model_fingerprint(resolve(kGood, {"model.sliding_window=8", "model.layer_types=" + types}).spec);
  };
  EXPECT_NE(model("[sliding_attention]"), model_fingerprint(resolve(kGood).spec));
  EXPECT_EQ(model("[sliding_attention]"), model_fingerprint(resolve(kGood, {"model.sliding_window=8"}).spec));
  EXPECT_NE(model("[sliding_attention, full_attention]"), model("[sliding_attention]"));
  EXPECT_EQ(model("[sliding_attention, full_attention]"),
            model("[sliding_attention, full_attention, sliding_attention, full_attention]"))
      << "the six layers have the same types";
}

TEST(Load, LayersWithoutRope) {
  const auto set = [](const std::string& text) {
    return resolve(kGood, {"model.no_rope_layers=" + text}).spec.model.no_rope_layers;
  };
  EXPECT_EQ(set("4").every, 4);
  EXPECT_EQ(set("[4, 1]").layers, (std::vector<std::int64_t>{1, 4}));
  const auto fingerprint = [](const std::vector<std::string>& words) {
    return model_fingerprint(resolve(kGood, words).spec);
  };
  EXPECT_NE(fingerprint({"model.no_rope_layers=4"}), fingerprint({}));
  EXPECT_EQ(fingerprint({"model.no_rope_layers=2"}), fingerprint({"model.no_rope_layers=[1, 3, 5]"}));
  EXPECT_NE(fingerprint({"model.no_rope_layers=[3]"}), fingerprint({"model.no_rope_layers=[1]"}));
  EXPECT_EQ(fingerprint({"model.no_rope_layers=[3]"}), fingerprint({"model.no_rope_layers=4"})) << "of six layers";
}

TEST(Load, NewKeysThatFollowOthersLeaveFingerprintsAsTheyWere) {
  const auto text = [](const std::vector<std::string>& words) { return canonical_text(resolve(kGood, words).spec); };
  EXPECT_EQ(text({"model.attention_bias=true"}).find("attention_out_bias"), std::string::npos);
  EXPECT_EQ(text({"model.attention_bias=true", "model.attention_out_bias=true"}), text({"model.attention_bias=true"}));
  EXPECT_NE(text({"model.attention_bias=true", "model.attention_out_bias=false"}).find("attention_out_bias=false\n"),
            std::string::npos);
  EXPECT_EQ(text({"model.rope_scaling=llama3"}).find("attention_factor"), std::string::npos);
  EXPECT_EQ(text({}).find("multiplier"), std::string::npos);
  EXPECT_EQ(text({}).find("distribution"), std::string::npos);
  EXPECT_NE(text({"init.distribution=truncated"}).find("init.distribution=truncated\n"), std::string::npos);
  EXPECT_EQ(text({"model.head_dim=64", "model.attention_multiplier=0.125"}), text({"model.head_dim=64"}));
  EXPECT_NE(text({"model.attention_multiplier=0.125"}), text({}));
}

/// Keys of transformers in rope_scaling: one error each, with llmc's key.
TEST(Load, TransformersKeysOfRopeScaling) {
  const auto errors = [](const std::string& scaling) {
    std::string all;
    for (const Diagnostic& d : load_text(kGood, "a.yaml", {"model.rope_scaling=" + scaling}).diagnostics)
      all += fmt::format("{} {}; {}\n", d.code, d.message, d.advice);
    return all;
  };
  EXPECT_TRUE(test::has_facts(errors("{rope_type: linear, factor: 4}"), {"E0201 ", "model.rope_scaling.type\n"}));
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"model.rope_scaling={rope_type: linear, factor: 4}"})), "E0201");
  for (const char* key : {"mscale", "mscale_all_dim"})
    EXPECT_TRUE(test::has_facts(errors(fmt::format("{{type: yarn, {}: 1}}", key)),
                                {"E0201 ", key, "model.rope_scaling.attention_factor; ", "mscale_all_dim"}));
}

TEST(Load, LayersThatSlide) {
  const auto first_error = [](const std::vector<std::string>& overrides) {
    const LoadResult result = load_text(kGood, "a.yaml", overrides);
    if (result.diagnostics.empty()) return std::string();
    return result.diagnostics[0].code + " " + result.diagnostics[0].message + "; " + result.diagnostics[0].advice;
  };
  const std::string window = "model.sliding_window=8", full = "model.layer_types=[full_attention]";
  EXPECT_TRUE(test::has_facts(first_error({window, full}),
                              {"E0326 ", "full_attention", "sliding_window",
                               "write layer_types: [sliding_attention, full_attention], or remove"}));
  EXPECT_TRUE(test::has_facts(
      first_error({"model.layer_types=[sliding_attention]"}),
      {"E0309 model.layer_types ", "model.sliding_window; write model.sliding_window: 1024, or remove"}));
  EXPECT_TRUE(test::has_facts(first_error({full}), {"E0309 model.layer_types ", "model.sliding_window; remove"}));
  EXPECT_EQ(first_error({window, "model.num_hidden_layers=2",
                         "model.layer_types=[full_attention, sliding_attention, full_attention]"}),
            "E0326 layer_types has 3 types for 2 layers; write layer_types: [full_attention, sliding_attention], or "
            "num_hidden_layers: 3");
  EXPECT_TRUE(test::has_facts(first_error({"model.sliding_window=0"}),
                              {"E0205 model.sliding_window ", "\"0\"", "from 1 to 16777216"}));
  EXPECT_EQ(first_error({window, "model.layer_types=[sliding]"}),
            "E0206 model.layer_types takes sliding_attention or full_attention, not \"sliding\"; did you mean "
            "sliding_attention?");
  EXPECT_TRUE(
      test::has_facts(first_error({window, "model.layer_types=[]"}), {"E0207 model.layer_types ", "empty list"}));
  const auto notes = [](const char* word) { return load_text(kGood, "a.yaml", {word}).notes; };
  EXPECT_TRUE(notes("model.sliding_window=255").empty());
  const std::vector<std::string> covers = notes("model.sliding_window=256");
  ASSERT_EQ(covers.size(), 1u);
  EXPECT_TRUE(test::has_facts(covers[0], {"model.sliding_window 256", "batch.sequence_length 256"}));
}

/// A spec over another one switches off with `none` what that has.
TEST(Load, NoneIsWithout) {
  const auto text = [](const std::vector<std::string>& words) { return canonical_text(resolve(kGood, words).spec); };
  const std::string without = text({});
  for (const char* key : {"sliding_window", "attn_logit_softcapping", "final_logit_softcapping", "no_rope_layers"})
    EXPECT_EQ(text({std::string("model.") + key + "=none"}), without) << key;
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"guards.plateau=none"})), "");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"guards.frozen_steps=1"})), "E0205") << "of each first loss";
  for (const char* steps : {"guards.frozen_steps=0", "guards.frozen_steps=2"})
    EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {steps})), "") << steps;
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"model.sliding_window=none", "model.rope_local_theta=10000"})),
            "E0309");
}

TEST(Load, RolesThatTheModelLacks) {
  for (const char* word : {"optimizer.rate_scale.vectors=3", "optimizer.weight_decay_of.vectors=0.1",
                           "optimizer.betas_of.vectors=[0.8, 0.9]"}) {
    EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {word})), "") << "norms have weights";
    EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {word, "model.norm_weight=none"})), "E0309");
    EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {word, "model.norm_weight=none", "model.attention_bias=true"})), "");
  }
  const LoadResult whole = load_text(kGood, "a.yaml", {"model.norm_weight=none"});
  EXPECT_EQ(codes_of(load_text(to_yaml(*whole.resolved, false), "whole.yaml")), "") << "a spec with all values";
}

TEST(Load, FileErrors) {
  EXPECT_EQ(codes_of(load("/nowhere/at/all.yaml")), "E0111");
  EXPECT_EQ(codes_of(load("/dev/zero")), "E0111");
  const test::Folder files;
  const std::string folder = files.path.string();
  EXPECT_EQ(codes_of(load(folder)), "E0111");
  EXPECT_TRUE(test::has_facts(load(folder).diagnostics[0].message, "folder"));
  EXPECT_TRUE(test::has_facts(load(folder).diagnostics[0].advice, "specs/quickstart.yaml"));
  files.write("spec.yaml", "name: a\n");
  EXPECT_EQ(load(folder).diagnostics[0].advice, "give its spec, " + folder + "/spec.yaml");
  EXPECT_EQ(codes_of(load_text("extends: a.yaml\n", "b.yaml")), "E0111");
}

TEST(Load, AdvicesTheDeviceThatIsMeant) {
  const auto advice = [](const char* target) {
    const LoadResult result = load_text(std::string(kGood) + target, "a.yaml");
    return result.diagnostics.size() == 1 ? result.diagnostics[0].advice : render(result.diagnostics);
  };
  EXPECT_EQ(advice("target: {kind: cuda, arch: sm_90}\n"), "did you mean 90a?") << "its products are in no code for 90";
  EXPECT_EQ(advice("target: {kind: cuda, arch: sm_80}\n"), "did you mean 80?");
  EXPECT_EQ(advice("target: {kind: cuda, arch: [89], device: rtx-4090}\nmemory: {budget: h100-80gb}\n"),
            "write budget: rtx-4090");
  EXPECT_EQ(advice("target: {kind: cuda, arch: [89]}\nmemory: {budget: h100-80gb}\n"), "write budget: l4");
  EXPECT_EQ(advice("target: {kind: cuda, arch: sm_90}\nmemory: {budget: h100-80gb}\n"), "did you mean 90a?")
      << "the budget's device is one of what is meant";
}

TEST(Load, ArchOfAKindThatWasReplacedFallsBack) {
  const std::string cuda = std::string(kGood) + "target: {kind: cuda, arch: [80, 90a]}\n";
  const LoadResult result = load_text(cuda, "a.yaml", {"target.kind=cpu"});
  ASSERT_TRUE(result.resolved) << render(result.diagnostics);
  EXPECT_EQ(result.resolved->spec.target.arch, std::vector<std::string>{"native"});
  EXPECT_EQ(result.resolved->origins.at("target.arch").kind, Origin::Kind::fallback);
  ASSERT_EQ(result.notes.size(), 1u);
  EXPECT_TRUE(
      test::has_facts(result.notes[0], {"target.arch [\"80\", \"90a\"] ", "cuda", "target.kind cpu", "[native]"}));
  // A file that extends the one with the arch, and the other way round.
  const ReadFile base = [](const std::string&) { return std::string(kGood) + "target: {kind: cpu, arch: native}\n"; };
  const LoadResult over = load_text("extends: base.yaml\ntarget: {kind: cuda}\n", "b.yaml", {}, base);
  ASSERT_TRUE(over.resolved) << render(over.diagnostics);
  EXPECT_EQ(over.resolved->spec.target.arch, std::vector<std::string>{"90a"});
  EXPECT_EQ(over.notes.size(), 1u);
  // Values for the new kind are kept, and so are errors.
  EXPECT_EQ(resolve(cuda, {"target.kind=cuda"}).spec.target.arch, (std::vector<std::string>{"80", "90a"}));
  EXPECT_EQ(codes_of(load_text(cuda, "a.yaml", {"target.kind=cpu", "target.arch=90a"})), "E0311");
  EXPECT_EQ(
      codes_of(load_text(std::string(kGood) + "target: {kind: cpu, arch: haswel}\n", "a.yaml", {"target.kind=cpu"})),
      "E0311");
  EXPECT_EQ(codes_of(load_text(std::string(kGood) + "target: {kind: cpu, arch: 90a}\n", "a.yaml")), "E0311");
}

TEST(Load, BudgetAndAttentionOfAKindThatWasReplacedFallBack) {
  constexpr std::int64_t kGiB = std::int64_t{1} << 30;
  const std::string cuda = std::string(kGood) + "memory: {budget: h100-80gb}\ntarget: {kind: cuda, attention: cudnn}\n";
  const LoadResult cpu = load_text(cuda, "a.yaml", {"target.kind=cpu"});
  ASSERT_TRUE(cpu.resolved) << render(cpu.diagnostics);
  EXPECT_EQ(cpu.resolved->spec.memory.budget, 16 * kGiB);
  EXPECT_EQ(cpu.resolved->spec.target.attention, AttentionKind::automatic);
  EXPECT_EQ(cpu.resolved->origins.at("memory.budget").kind, Origin::Kind::fallback);
  ASSERT_EQ(cpu.notes.size(), 2u);
  EXPECT_TRUE(test::has_facts(cpu.notes[0], {"target.attention cudnn ", "cuda", "ignored", "target.kind cpu"}));
  EXPECT_TRUE(test::has_facts(cpu.notes[1], {"memory.budget 77GiB ", "cuda", "target.kind cpu", "16GiB"}));
  // A file without a kind means the default kind, and so does its budget.
  const LoadResult gpu = load_text(std::string(kGood) + "memory: {budget: 2GiB}\n", "a.yaml", {"target.kind=cuda"});
  ASSERT_TRUE(gpu.resolved) << render(gpu.diagnostics);
  EXPECT_EQ(gpu.resolved->spec.memory.budget, 77 * kGiB);
  // Through two files: a budget applies to the kind of its own file, or of those it extends.
  const auto three = disk({{"middle.yaml", "extends: base.yaml\nmemory: {budget: 3GiB}\n"},
                           {"base.yaml", std::string(kGood) + "target: {kind: cuda}\n"}});
  const auto budget = [&](const char* text, const std::vector<std::string>& words) {
    return resolve(text, words, three).spec.memory.budget;
  };
  EXPECT_EQ(budget("extends: middle.yaml\n", {}), 3 * kGiB);
  EXPECT_EQ(budget("extends: middle.yaml\ntarget: {kind: cpu}\n", {}), 16 * kGiB);
  EXPECT_EQ(budget("extends: middle.yaml\n", {"target.kind=cuda"}), 3 * kGiB) << "the same kind";
  EXPECT_EQ(budget("extends: middle.yaml\nmemory: {budget: 5GiB}\ntarget: {kind: cpu}\n", {}), 5 * kGiB);
  EXPECT_EQ(budget("extends: middle.yaml\n", {"target.kind=cpu", "memory.budget=6GiB"}), 6 * kGiB);
  EXPECT_EQ(codes_of(load_text(cuda, "a.yaml", {"target.kind=cpu", "target.attention=cudnn"})), "E0309");
}

TEST(Load, ABudgetOfAnotherArchsDeviceIsRefused) {
  const auto codes = [](const std::string& budget, const std::string& archs) {
    return codes_of(
        load_text(std::string(kGood) + "memory: {budget: " + budget + "}\ntarget: {kind: cuda, arch: " + archs + "}\n",
                  "a.yaml"));
  };
  EXPECT_EQ(codes("a100-80gb", "[90a]"), "E0324");
  EXPECT_EQ(codes("a100-80gb", "[80, 90a]"), "");
  EXPECT_EQ(codes("77GiB", "[90a]"), "");
}

TEST(Load, ByteOrderMarkAndCrlf) {
  std::string text = "\xef\xbb\xbf";
  for (const char* c = kGood; *c; ++c) text += *c == '\n' ? "\r\n" : std::string(1, *c);
  EXPECT_EQ(to_yaml(resolve(text), false), to_yaml(resolve(kGood), false));
  // Checksums cover the bytes on disk, also of extended files.
  const std::string over =
      "\xef\xbb\xbf"
      "extends: base.yaml\n";
  const Resolved both = resolve(over, {}, disk({{"base.yaml", text}}));
  ASSERT_EQ(both.files.size(), 2u);
  EXPECT_EQ(both.files[0].path, "good.yaml");
  EXPECT_TRUE(both.files[0].text == over);
  EXPECT_EQ(both.files[1].path, "base.yaml");
  EXPECT_TRUE(both.files[1].text == text);
}

TEST(Load, OverridesWithBrokenText) {
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {std::string("seed=1\0", 7)})), "E0102");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"data.tokenizer=\xff"})), "E0102");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"sampling=\n  every: 1"})), "E0411");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"a.b.c.d.e.f.g.h.i=1"})), "E0411");
  EXPECT_EQ(codes_of(load_text(kGood, "a.yaml", {"seed=1 \n---\n2"})), "E0411");
}

TEST(Load, DiagnosticsAsJson) {
  const auto list = nlohmann::json::parse(to_json(load_text(std::string(kGood) + "sed: 1\n", "a.yaml").diagnostics));
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0]["code"], "E0201");
  EXPECT_EQ(list[0]["advice"], "did you mean seed?");
  EXPECT_EQ(list[0]["places"][0]["line"], 13);
  EXPECT_EQ(list[0]["places"][0]["column"], 1);
}

TEST(Load, ColourIsOptional) {
  const auto diagnostics = load_text("a", "a.yaml").diagnostics;
  EXPECT_EQ(render(diagnostics, false).find('\033'), std::string::npos);
  EXPECT_NE(render(diagnostics, true).find('\033'), std::string::npos);
}

TEST(Load, ShippedSpecs) {
  for (const char* name : {"quickstart", "llama-1b", "tiny"}) {
    const LoadResult result = load(std::string(SPECS_FOLDER "/") + name + ".yaml");
    ASSERT_TRUE(result.resolved) << render(result.diagnostics);
    EXPECT_EQ(result.resolved->spec.name, name);
  }
}

TEST(Budget, OfACudaRunFitsTheSmallestDeviceOfItsArch) {
  constexpr std::int64_t kGiB = 1LL << 30;
  const auto budget = [](const char* arch) {
    return resolve(kGood, {std::string("target={kind: cuda, arch: ") + arch + "}"}).spec.memory.budget;
  };
  EXPECT_EQ(resolve(kGood, {"target.kind=cuda"}).spec.memory.budget, *device_budget("h100-80gb"));
  // NCCL's buffers are outside the arena.
  EXPECT_EQ(resolve(kGood, {"target.kind=cuda", "parallel.world_size=2"}).spec.memory.budget,
            *device_budget("h100-80gb") - (std::int64_t{1} << 30));
  EXPECT_EQ(budget("[90a]"), 77 * kGiB);
  EXPECT_EQ(budget("[100, 90]"), 77 * kGiB);
  EXPECT_EQ(budget("[80]"), 37 * kGiB);
  EXPECT_EQ(budget("[87]"), 16 * kGiB);  // not in the table
  EXPECT_EQ(resolve(kGood).spec.memory.budget, 16 * kGiB);
}

}  // namespace
}  // namespace llmc::spec
