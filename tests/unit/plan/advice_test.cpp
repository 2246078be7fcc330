// Advice of a plan: limits are exact, and hints promise the gains of the plans they name.
#include "compiler/plan/advice.h"

#include <gtest/gtest.h>

#include "../facts.h"
#include "compiler/plan/plan.h"
#include "small_spec.h"

namespace llmc::plan {
namespace {

std::string word(const std::string& key, const std::string& value) { return key + "=" + value; }

struct Passes {
  std::int64_t sequences = 0, length = 24;
  const char* recompute = "none";

  Exit planned(const std::string& budget) const {
    return planned_exit(small_spec({word("memory.budget", budget), word("memory.recompute", recompute),
                                    "memory.loss_chunk=auto", word("batch.micro_batch", std::to_string(sequences)),
                                    word("batch.sequence_length", std::to_string(length)),
                                    word("batch.tokens", std::to_string(sequences * length))})
                            .spec);
  }
};

TEST(Advice, WhatIsBeyondALimitDoesNotFit) {
  const std::string budget = std::to_string(make_plan(small_spec().spec).process_bytes + (4 << 20));
  const Limits found = limits(
      make_plan(small_spec({word("memory.budget", budget), "memory.recompute=auto", "memory.loss_chunk=auto"}).spec));
  const Limit& batch = found.micro_batch;
  EXPECT_GT(batch.as_chosen, 2);
  EXPECT_GT(*batch.recomputing_all, batch.as_chosen);
  EXPECT_EQ((Passes{batch.as_chosen}.planned(budget)), Exit::done);
  EXPECT_EQ((Passes{batch.as_chosen + batch.to_within}.planned(budget)), Exit::does_not_fit);
  EXPECT_EQ((Passes{*batch.recomputing_all, 24, "full"}.planned(budget)), Exit::done);
  EXPECT_EQ((Passes{*batch.recomputing_all + batch.all_to_within, 24, "full"}.planned(budget)), Exit::does_not_fit);
  const Limit& length = found.sequence_length;
  EXPECT_EQ((Passes{1, length.as_chosen}.planned(budget)), Exit::done);
  EXPECT_EQ((Passes{1, length.as_chosen + length.to_within}.planned(budget)), Exit::does_not_fit);
}

/// No value that the search tries, and none that it finds, breaks a relation: sums over tokens in blocks of 32.
TEST(Advice, LimitsAreValuesThatASpecMayHave) {
  const std::vector<std::string> blocks = {
      "precision.matmul=mxfp8",   "precision.compute=bf16",     "model.hidden_size=96",
      "model.head_dim=16",        "model.intermediate_size=64", "model.attention_bias=false",
      "batch.sequence_length=24", "batch.micro_batch=4",        "batch.tokens=96",
      "memory.loss_chunk=auto"};
  const spec::Spec spec = small_spec(blocks).spec;
  EXPECT_EQ(spec.sequence_multiple(), 4);
  const Plan plan = make_plan(spec);
  const Limits found = limits(plan);
  EXPECT_EQ(found.micro_batch.as_chosen % 4, 0);
  EXPECT_EQ(found.sequence_length.as_chosen % 32, 0);
  spec::Spec other = spec;
  other.batch.micro_batch = 1;
  EXPECT_EQ(planned_exit(other), Exit::spec);
  EXPECT_EQ(fastest_plan(other), std::nullopt);
}

/// With full recomputation more than twice as much fits, and the search uses larger steps.
TEST(Advice, EachLimitSaysHowNearItIs) {
  const auto quickstart = [](const std::vector<std::string>& words) {
    const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/quickstart.yaml", words);
    EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
    return loaded.resolved->spec;
  };
  const Limit batch = limits(make_plan(quickstart({}))).micro_batch;
  EXPECT_GT(batch.all_to_within, batch.to_within);
  const auto planned = [&](std::int64_t sequences) {
    return planned_exit(quickstart({"memory.recompute=full", "memory.loss_chunk=auto",
                                    word("batch.micro_batch", std::to_string(sequences)),
                                    word("batch.tokens", std::to_string(sequences * 256))}));
  };
  EXPECT_EQ(planned(*batch.recomputing_all), Exit::done);
  EXPECT_EQ(planned(*batch.recomputing_all + batch.all_to_within), Exit::does_not_fit);
}

TEST(Advice, WhereTheSpecFixesRecomputationThereIsOneLimit) {
  const Limits found = limits(make_plan(small_spec({"memory.budget=84MiB", "memory.recompute=none"}).spec));
  EXPECT_EQ(found.micro_batch.recomputing_all, std::nullopt);
  EXPECT_EQ(found.sequence_length.recomputing_all, std::nullopt);
}

/// 1 GiB less than the device has, for NCCL, where there are several ranks.
TEST(Advice, AHintLeavesNcclItsMemory) {
  const auto budgets = [](const char* budget) {
    std::vector<std::string> found;
    const spec::LoadResult loaded =
        spec::load(std::string(SPECS_FOLDER) + "/gemma3-1b.yaml",
                   {"target.arch=[86]", "target.device=a10", "parallel.world_size=8", word("memory.budget", budget)});
    for (const Hint& hint : hints(make_plan(loaded.resolved->spec)))
      for (const spec::Change& change : hint.changes)
        if (change.path == "memory.budget") found.push_back(change.after);
    return found;
  };
  EXPECT_EQ(budgets("17GiB"), std::vector<std::string>{"19GiB"});
  EXPECT_EQ(budgets("19GiB"), std::vector<std::string>{});
}

TEST(Advice, WhereEverythingFitsNoLimitIsClaimed) {
  const Limits found = limits(make_plan(small_spec({"memory.budget=1TiB", "memory.recompute=none"}).spec));
  EXPECT_EQ(found.micro_batch.to_within, 0);
  EXPECT_EQ(found.micro_batch.as_chosen, 65536) << "the most that the key takes";
  EXPECT_EQ(found.sequence_length.as_chosen, 1 << 20);
}

/// `words`: an fp32 run with a hint of every kind.
void expect_true_hints(const std::vector<std::string>& words) {
  const Plan plan = make_plan(small_spec(words).spec);
  const std::vector<Hint> found = hints(plan);
  ASSERT_GE(found.size(), 3u);  // bf16, fewer key-value heads, no recomputation
  for (const Hint& hint : found) {
    std::vector<std::string> changed = words;
    for (const spec::Change& change : hint.changes) {
      std::erase(changed, word(change.path, change.before));
      changed.push_back(word(change.path, change.after));
    }
    const Plan other = make_plan(small_spec(changed).spec);
    EXPECT_DOUBLE_EQ(hint.seconds, plan.cost.time.seconds - other.cost.time.seconds) << hint.changes[0].path;
    EXPECT_EQ(hint.bytes, static_cast<std::int64_t>(other.layout.bytes) - static_cast<std::int64_t>(plan.layout.bytes));
    EXPECT_EQ(hint.parameters, other.parameters.logical - plan.parameters.logical);
    EXPECT_GT(hint.seconds, 0);
  }
  for (std::size_t i = 1; i < found.size(); ++i) EXPECT_GE(found[i - 1].seconds, found[i].seconds);
}

/// Only code for 90a has warpgroup products.
TEST(Advice, AnArchWithoutItsOwnProductsIsHinted) {
  const auto hinted = [](const char* arch) {
    const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/llama-1b.yaml", {arch});
    for (const Hint& hint : hints(make_plan(loaded.resolved->spec)))
      if (hint.changes[0].path == "target.arch") return hint.changes[0].after;
    return std::string();
  };
  EXPECT_EQ(hinted("target.arch=[90]"), "[\"90a\"]");
  EXPECT_EQ(hinted("target.arch=[90a]"), "");
}

TEST(Advice, Tf32IsHintedForFp32RunsOnCuda) {
  const auto hinted = [](const char* matmul) {
    const std::string file = std::string(SPECS_FOLDER) + "/llama-1b.yaml";
    const spec::LoadResult loaded = spec::load(file, {"precision.compute=fp32", matmul});
    std::string found;
    for (const Hint& hint : hints(make_plan(loaded.resolved->spec)))
      for (const spec::Change& change : hint.changes)
        if (change.path.starts_with("precision.")) found += change.path + "=" + change.after + " ";
    return found;
  };
  EXPECT_TRUE(test::has_facts(hinted("precision.matmul=auto"), {"precision.compute=bf16", "precision.matmul=tf32"}));
  EXPECT_TRUE(test::has_facts(hinted("precision.matmul=tf32"), {"precision.compute=bf16 precision.matmul=auto"}));
}

TEST(Advice, Fp8IsHintedWhereTheHardwareAndAllSizesAllowIt) {
  const auto hinted = [](const std::vector<std::string>& words) {
    const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/llama-1b.yaml", words);
    std::string found;
    for (const Hint& hint : hints(make_plan(loaded.resolved->spec)))
      if (hint.changes[0].path == "precision.matmul") {
        EXPECT_EQ(hint.changes.size(), 1u) << "its keys keep their defaults";
        found += hint.changes[0].after + " ";
      }
    return found;
  };
  EXPECT_EQ(hinted({}), "fp8_full fp8 ");
  EXPECT_EQ(hinted({"precision.matmul=fp8"}), "fp8_full ");
  EXPECT_EQ(hinted({"precision.matmul=fp8_full"}), "");
  EXPECT_EQ(hinted({"model.intermediate_size=8200"}), "");
  EXPECT_EQ(hinted({"target.arch=[90, 100]"}), "fp8_tensor ") << "not all archs have scales of rows";
  EXPECT_EQ(hinted({"target.arch=[100a]", "memory.budget=b200"}), "fp8_tensor ");
  EXPECT_EQ(hinted({"target.arch=[100a]", "memory.budget=b200", "precision.matmul=fp8_tensor"}), "");
  EXPECT_EQ(hinted({"target.arch=[80]", "memory.budget=a100-80gb"}), "") << "no fp8 products at all";
  EXPECT_EQ(
      hinted({"batch.sequence_length=2040", "batch.tokens=32640", "batch.micro_batch=1", "memory.loss_chunk=2040"}),
      "fp8 ")
      << "2,040 tokens are no multiple of 16";
}

TEST(Advice, TheHeadsProductsAreHintedWhereTheyMayBeFp8) {
  const auto hinted = [](const std::vector<std::string>& words) {
    const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/llama-1b.yaml", words);
    std::string found;
    for (const Hint& hint : hints(make_plan(loaded.resolved->spec)))
      if (hint.changes[0].path == "precision.fp8.head") found += hint.changes[0].after + " ";
    return found;
  };
  EXPECT_EQ(hinted({}), "");
  EXPECT_EQ(hinted({"precision.matmul=fp8_full"}), "forward_dgrad forward ");
  EXPECT_EQ(hinted({"precision.matmul=fp8_tensor"}), "forward_dgrad forward ");
  EXPECT_EQ(hinted({"precision.matmul=fp8_tensor", "target.arch=[100a]", "memory.budget=b200"}),
            "forward_dgrad forward ");
  EXPECT_EQ(hinted({"precision.matmul=mxfp8", "target.arch=[100a]", "memory.budget=b200"}), "") << "it has none";
}

/// Of 24 tokens each, two or six sequences have a multiple of 16, one or three have not.
TEST(Advice, ThePlannerChoosesNoMicroBatchOfFp8FullWhereSomeAreRefused) {
  const auto hinted = [](const char* length, const char* tokens) {
    const std::vector<std::string> words = {"precision.compute=bf16",
                                            "precision.matmul=fp8_full",
                                            "model.hidden_size=64",
                                            "model.head_dim=16",
                                            "model.intermediate_size=64",
                                            "batch.micro_batch=2",
                                            length,
                                            tokens,
                                            "memory.recompute=full"};
    bool found = false;
    for (const Hint& hint : hints(make_plan(small_spec(words).spec)))
      for (const spec::Change& change : hint.changes) found |= change.path == "batch.micro_batch";
    return found;
  };
  EXPECT_FALSE(hinted("batch.sequence_length=24", "batch.tokens=144"));
  EXPECT_TRUE(hinted("batch.sequence_length=32", "batch.tokens=192"));
}

TEST(Advice, AHintsGainIsThatOfThePlanThatItNames) {
  std::vector<std::string> words = {"precision.compute=fp32", "model.num_key_value_heads=12",
                                    "model.num_attention_heads=12", "memory.recompute=full"};
  expect_true_hints(words);
  // Hints bf16, and with it GEMMs in bf16.
  words.insert(words.end(), {"precision.matmul=bf16x3", "target.arch=sapphirerapids"});
  expect_true_hints(words);
}

/// Sequences that the planner combines as it likes, and chunks of rows whose scales begin at any address.
TEST(Advice, AHintCanBeFollowed) {
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"precision.matmul=fp8", "batch.micro_batch=auto", "memory.loss_chunk=auto"},
        {"precision.matmul=fp8", "batch.micro_batch=16", "memory.loss_chunk=250"}}) {
    const auto load = [&](const std::vector<Hint>& followed) {
      std::vector<std::string> all = {"batch.sequence_length=1000", "batch.tokens=256000"};
      all.insert(all.end(), words.begin(), words.end());
      for (const Hint& hint : followed)
        for (const spec::Change& change : hint.changes) {
          std::erase(all, word(change.path, change.before));
          all.push_back(word(change.path, change.after));
        }
      return spec::load(std::string(SPECS_FOLDER) + "/llama-1b.yaml", all);
    };
    const spec::LoadResult loaded = load({});
    ASSERT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics, false);
    for (const Hint& hint : hints(make_plan(loaded.resolved->spec)))
      EXPECT_TRUE(load({hint}).resolved) << spec::render(load({hint}).diagnostics, false);
  }
}

/// The plan's recomputation fills the budget, which fp8_full's copies would exceed.
TEST(Advice, AHintThatDoesNotFitWithThePlansChoicesNamesNewOnes) {
  const auto load = [](const std::vector<std::string>& words) {
    const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/llama-8b.yaml", words);
    EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
    return loaded.resolved->spec;
  };
  const Plan plan = make_plan(load({}));
  spec::Spec kept = chosen_spec(plan);
  kept.matmul = spec::Matmul::fp8_full;
  ASSERT_EQ(planned_exit(kept), Exit::does_not_fit);
  for (const Hint& hint : hints(plan))
    if (hint.changes[0].path == "precision.matmul" && hint.changes[0].after == "fp8_full") {
      EXPECT_TRUE(std::ranges::any_of(hint.changes, [](const auto& each) { return each.path == "memory.recompute"; }));
      const Plan other = make_plan(load({"precision.matmul=fp8_full"}));
      EXPECT_DOUBLE_EQ(hint.seconds, plan.cost.time.seconds - other.cost.time.seconds);
      return;
    }
  ADD_FAILURE() << "no hint";
}

/// fp8_tensor leaves a layer at either end in bf16, unless the spec says otherwise; fp8_full leaves none.
TEST(Advice, AHintOfFp8FullIsOfTheLayersThatItHas) {
  const auto planned = [](const char* matmul) {
    const std::string file = std::string(SPECS_FOLDER) + "/llama-1b.yaml";
    const spec::LoadResult loaded = spec::load(file, {matmul});
    EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
    return make_plan(loaded.resolved->spec);
  };
  const Plan tensors = planned("precision.matmul=fp8_tensor"), full = planned("precision.matmul=fp8_full");
  for (const Hint& hint : hints(tensors))
    if (hint.changes[0].path == "precision.matmul") {
      EXPECT_DOUBLE_EQ(hint.seconds, tensors.cost.time.seconds - full.cost.time.seconds);
      return;
    }
  ADD_FAILURE() << "no hint";
}

}  // namespace
}  // namespace llmc::plan
