// Compares the solver with exhaustive search, and the search over a spec's choices with its guarantees.
#include "compiler/plan/search.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "../facts.h"
#include "compiler/passes/choice.h"
#include "error.h"
#include "small_spec.h"

namespace llmc::plan {
namespace {

/// Tries every assignment of options to layers.
RecomputeSolution exhaustive(const RecomputeProblem& problem) {
  RecomputeSolution best;
  std::vector<const std::vector<LayerOption>*> layers;
  for (const KindOfLayers& kind : problem.kinds)
    layers.insert(layers.end(), static_cast<std::size_t>(kind.layers), &kind.options);
  std::vector<std::size_t> choice(layers.size(), 0);
  for (bool more = true; more;) {
    std::size_t bytes = problem.fixed, bound = problem.bound;
    double seconds = 0;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      const LayerOption& option = (*layers[layer])[choice[layer]];
      bytes += option.kept;
      bound = std::max(bound, option.bound);
      seconds += option.seconds;
    }
    if (bytes + bound <= problem.budget && (!best.fits || seconds < best.seconds))
      best = {true, {}, seconds, bytes + bound};
    more = false;
    for (std::size_t layer = 0; layer < layers.size(); ++layer) {
      if (++choice[layer] < layers[layer]->size()) {
        more = true;
        break;
      }
      choice[layer] = 0;
    }
  }
  return best;
}

RecomputeProblem drawn(std::mt19937& rng) {
  const auto pick = [&](int low, int high) { return std::uniform_int_distribution(low, high)(rng); };
  RecomputeProblem problem;
  problem.fixed = static_cast<std::size_t>(pick(0, 40));
  problem.bound = static_cast<std::size_t>(pick(0, 40));
  for (int kinds = pick(1, 3), k = 0; k < kinds; ++k) {
    KindOfLayers& kind = problem.kinds.emplace_back();
    kind.layers = pick(1, 6 / kinds);
    const int options = pick(1, 6);
    for (int i = 0; i < options; ++i)
      kind.options.push_back({.groups = static_cast<graph::RecomputeGroups>(i),
                              .kept = static_cast<std::size_t>(pick(0, 60)),
                              .bound = static_cast<std::size_t>(pick(0, 80)),
                              .seconds = pick(1, 50) * 0.01});
  }
  problem.budget = static_cast<std::size_t>(pick(20, 400));
  return problem;
}

TEST(RecomputeSolver, AgreesWithExhaustiveSearch) {
  std::mt19937 rng(7);
  int fitting = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    const RecomputeProblem problem = drawn(rng);
    const RecomputeSolution expected = exhaustive(problem), solution = solve(problem);
    ASSERT_EQ(solution.fits, expected.fits) << trial;
    EXPECT_EQ(smallest(problem).fits, expected.fits) << trial;
    if (!expected.fits) continue;
    ++fitting;
    EXPECT_NEAR(solution.seconds, expected.seconds, 1e-9) << trial;
    EXPECT_LE(solution.bytes, problem.budget);
    ASSERT_EQ(solution.layers.size(), problem.kinds.size());
    double seconds = 0;
    for (std::size_t k = 0; k < problem.kinds.size(); ++k) {
      EXPECT_EQ(solution.layers[k].size(), static_cast<std::size_t>(problem.kinds[k].layers));
      for (const graph::RecomputeGroups groups : solution.layers[k])
        seconds += problem.kinds[k].options[groups].seconds;
    }
    EXPECT_NEAR(seconds, expected.seconds, 1e-9) << trial << ": the layers' own options";
  }
  EXPECT_GT(fitting, 1000);
}

/// Least seconds if layers could use fractions of options. With one constraint, two options suffice.
double fractional_bound(const RecomputeProblem& problem) {
  const auto& [layers, options] = problem.kinds[0];
  const double room = static_cast<double>(problem.budget - problem.fixed - options[0].bound);
  const double each = room / static_cast<double>(layers);
  double best = 1e9;
  for (const LayerOption& a : options)
    for (const LayerOption& b : options) {
      const double low = static_cast<double>(a.kept), high = static_cast<double>(b.kept);
      if (low > each || high <= each) {
        if (high <= each) best = std::min(best, b.seconds);
        continue;
      }
      const double part = (each - low) / (high - low);
      best = std::min(best, a.seconds + part * (b.seconds - a.seconds));
    }
  return best * static_cast<double>(layers);
}

/// 128 layers with 40 options, beyond exhaustive search: above the bound by less than one layer's contribution.
TEST(RecomputeSolver, IsNearTheFractionalBoundForManyLayers) {
  std::mt19937 rng(9);
  RecomputeProblem problem;
  KindOfLayers& kind = problem.kinds.emplace_back();
  kind.layers = 128;
  double fastest = 1e9, slowest = 0;
  for (int i = 0; i < 40; ++i) {
    const double kept = std::uniform_real_distribution(1e6, 1e9)(rng);
    kind.options.push_back({.groups = static_cast<graph::RecomputeGroups>(i),
                            .kept = static_cast<std::size_t>(kept),
                            .bound = 1000,
                            .seconds = 1e-2 + 4e-3 * std::exp(-kept / 3e8)});
    fastest = std::min(fastest, kind.options.back().seconds);
    slowest = std::max(slowest, kind.options.back().seconds);
  }
  problem.budget = 40'000'000'000;
  const RecomputeSolution solution = solve(problem);
  ASSERT_TRUE(solution.fits);
  EXPECT_LE(solution.bytes, problem.budget);
  const double bound = fractional_bound(problem);
  EXPECT_GE(solution.seconds, bound * (1 - 1e-9));
  EXPECT_LE(solution.seconds, bound + slowest - fastest);
  EXPECT_GT(bound, 1.02 * 128 * fastest) << "the budget binds";
}

/// Returns false if nothing fits.
bool planned(const spec::Spec& spec, Plan& plan) {
  try {
    plan = make_plan(spec);
    return true;
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::does_not_fit);
    return false;
  }
}

std::vector<std::string> all_open(std::vector<std::string> more) {
  for (const char* word : {"batch.micro_batch=auto", "memory.loss_chunk=auto", "memory.recompute=auto",
                           "batch.tokens=384", "model.num_hidden_layers=4"})
    more.emplace_back(word);
  return more;
}

/// A budget of a fraction of the arena's bytes.
std::size_t budget_of(const Plan& plan, double part) {
  return plan.process_bytes + static_cast<std::size_t>(part * static_cast<double>(plan.layout.bytes));
}

/// Lower bound: tries every micro-batch with every pattern of a few sets of ops over the layers.
void expect_the_fastest(const std::vector<double>& parts, const std::vector<std::string>& model) {
  const std::vector<graph::RecomputeGroups> sets = {0, 1, 32, 33, 4, 61, graph::kRecomputeAll};
  const auto with_all_open = [&](std::vector<std::string> words) {
    words.insert(words.end(), model.begin(), model.end());
    return small_spec(all_open(std::move(words))).spec;
  };
  const Plan most = make_plan(with_all_open({}));
  for (const double part : parts) {
    const std::size_t budget = budget_of(most, part);
    const std::string word = "memory.budget=" + std::to_string(budget);
    Plan best;
    if (!planned(with_all_open({word}), best)) continue;
    EXPECT_LE(best.needed_bytes(), budget);
    for (const graph::RecomputeGroups a : sets)
      for (const graph::RecomputeGroups b : sets) {
        spec::Spec spec = with_all_open({word});
        spec.memory.recompute = passes::recompute_from({a, b, b, a}, spec.model);
        Plan plan;
        if (!planned(spec, plan)) continue;
        EXPECT_GE(plan.cost.time.seconds, best.cost.time.seconds * (1 - 1e-9)) << part << " " << a << b;
      }
  }
}

TEST(Search, FindsTheFastestThatFits) { expect_the_fastest({0.95, 0.8, 0.7, 0.6}, {}); }

TEST(Search, FindsTheFastestOfTwoKinds) {
  expect_the_fastest({0.8, 0.7}, {"model.sliding_window=7", "model.attention_bias=false", "model.mlp_bias=false",
                                  "model.layer_types=[sliding_attention, sliding_attention, full_attention]"});
}

TEST(Search, TimesNeverRiseWithTheBudget) {
  const spec::LoadResult loaded =
      spec::load(std::string(SPECS_FOLDER) + "/llama-1b.yaml",
                 {"batch.micro_batch=auto", "memory.loss_chunk=auto", "memory.recompute=auto", "batch.tokens=262144"});
  spec::Spec spec = loaded.resolved->spec;
  const Plan most = make_plan(spec);
  EXPECT_EQ(chosen_spec(most).memory.recompute.kind, spec::Recompute::Kind::none);
  double before = most.cost.time.seconds;
  int fitting = 0;
  for (int i = 59; i >= 0; --i) {
    spec.memory.budget =
        static_cast<std::int64_t>(25e9 + (static_cast<double>(most.layout.bytes) - 25e9) * static_cast<double>(i) / 59);
    Plan plan;
    if (!planned(spec, plan)) continue;
    ++fitting;
    EXPECT_LE(plan.layout.bytes, static_cast<std::size_t>(spec.memory.budget));
    EXPECT_GE(plan.cost.time.seconds, before * (1 - 1e-9)) << i;
    before = plan.cost.time.seconds;
  }
  EXPECT_GT(fitting, 40);
}

/// Heads of 256 have a fast backward pass of attention, cuDNN's, whose workspace a pass without recomputation has no
/// room for; and a large vocabulary, of which a smaller chunk leaves room for what would be recomputed.
TEST(Search, LeftOpenIsNeverSlowerThanGiven) {
  const auto seconds = [](const char* budget, std::vector<std::string> given) {
    given.insert(given.end(), {budget, "parallel.shard=optimizer"});
    const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/gemma3-1b.yaml", given);
    EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
    return make_plan(loaded.resolved->spec).cost.time.seconds;
  };
  const char* const one = "batch.micro_batch=1";
  const double open = seconds("memory.budget=24GiB", {});
  EXPECT_LE(open, seconds("memory.budget=24GiB", {one}) * (1 + 1e-9));
  EXPECT_LE(open, seconds("memory.budget=24GiB", {one, "memory.loss_chunk=4096"}) * (1 + 1e-9));
  EXPECT_LE(open, seconds("memory.budget=23GiB", {}) * (1 + 1e-9));
  const double wider = seconds("memory.budget=26GiB", {});
  EXPECT_LE(wider, seconds("memory.budget=26GiB", {one, "memory.recompute=[swiglu]"}) * (1 + 1e-9));
  EXPECT_LE(wider, open);
}

/// Buffers of Muon make packing take more than its bound with some choices of recomputation and not with others.
/// Passes of more rows, which begin as the fastest, need much recomputation here.
TEST(Search, AlternativesAreTheFastest) {
  const auto plan_of = [](const std::vector<std::string>& overrides) {
    const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/gemma3-1b.yaml", overrides);
    EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
    return make_plan(loaded.resolved->spec);
  };
  const Plan best = plan_of({});
  ASSERT_EQ(best.alternatives.size(), 3u);
  double slowest = 0;
  for (const char* shard : {"none", "optimizer", "gradients", "parameters"}) {
    const std::string rows = std::to_string(best.choice.micro_batch);
    const Plan other = plan_of({std::string("parallel.shard=") + shard, "batch.micro_batch=" + rows});
    slowest = std::max(slowest, other.cost.time.seconds);
  }
  EXPECT_LE(best.alternatives.back().seconds, slowest * (1 + 1e-9));
}

TEST(Search, FewerBytesAreNeverFasterWhateverPackingTakes) {
  const auto at = [](std::size_t budget) {
    const spec::LoadResult loaded =
        spec::load(std::string(SPECS_FOLDER) + "/tiny.yaml",
                   {"model.hidden_size=512", "model.num_attention_heads=16", "model.head_dim=32",
                    "model.intermediate_size=2048", "model.mlp_bias=true", "precision.compute=fp32",
                    "batch.sequence_length=77", "batch.tokens=77", "batch.micro_batch=auto", "optimizer.kind=muon",
                    "target.arch=x86-64-v3", "memory.budget=" + std::to_string(budget)});
    EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
    return loaded.resolved->spec;
  };
  const Plan most = make_plan(at(std::size_t{1} << 30));
  EXPECT_EQ(chosen_spec(most).memory.recompute.kind, spec::Recompute::Kind::none);
  double before = most.cost.time.seconds;
  int fitting = 0, refused = 0;
  for (std::size_t less = 0; less <= 6'000'000; less += 100'000) {
    Plan plan;
    if (!planned(at(most.needed_bytes() - less), plan)) {
      ++refused;
      continue;
    }
    ++fitting;
    EXPECT_EQ(refused, 0) << "where " << less << " fewer bytes do";
    EXPECT_GE(plan.cost.time.seconds, before * (1 - 1e-9)) << less;
    before = plan.cost.time.seconds;
  }
  EXPECT_GT(fitting, 40);
  EXPECT_GT(refused, 0);
}

/// Arena and packing of specs with all choices open, at budgets that require mixed recomputation.
TEST(Search, PacksWhatItChoosesWithinThreePercent) {
  int mixed = 0;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 rng(seed);
    const auto pick = [&](const std::vector<const char*>& values) {
      return std::string(values[rng() % values.size()]);
    };
    std::vector<std::string> words = {"model.num_hidden_layers=" + pick({"1", "3", "6"}),
                                      "model.hidden_size=" + pick({"36", "48", "100"}),
                                      "model.intermediate_size=" + pick({"33", "128", "500"}),
                                      "model.tie_word_embeddings=" + pick({"true", "false"}),
                                      "precision.compute=" + pick({"fp32", "bf16"}),
                                      "batch.micro_batch=auto",
                                      "memory.loss_chunk=auto",
                                      "memory.recompute=auto",
                                      "batch.tokens=" + pick({"96", "384", "1536"})};
    const Plan most = make_plan(small_spec(words).spec);
    words.push_back("memory.budget=" + std::to_string(budget_of(most, std::uniform_real_distribution(0.5, 1.0)(rng))));
    const spec::Spec spec = small_spec(words).spec;
    Plan plan;
    if (!planned(spec, plan)) continue;
    EXPECT_LE(plan.needed_bytes(), static_cast<std::size_t>(spec.memory.budget)) << seed;
    EXPECT_LE(static_cast<double>(plan.layout.transient_bytes), 1.03 * static_cast<double>(plan.layout.transient_bound))
        << seed;
    mixed += chosen_spec(plan).memory.recompute.kind == spec::Recompute::Kind::layers;
    EXPECT_EQ(make_plan(chosen_spec(plan)).fingerprint, plan.fingerprint) << seed;
  }
  EXPECT_GT(mixed, 5);
}

/// Weights that are rounded once a step take memory, which recomputation may free.
TEST(Search, KeepsRoundedWeightsIfTheyFit) {
  const auto with = [](const std::string& recompute, std::size_t budget) {
    return make_plan(small_spec({"precision.matmul=fp8_full", "model.hidden_size=96", "model.head_dim=16",
                                 "model.intermediate_size=80", "memory.recompute=" + recompute,
                                 "memory.budget=" + std::to_string(budget)})
                         .spec);
  };
  const Plan most = with("none", std::size_t{1} << 30);
  ASSERT_TRUE(most.choice.keep_rounded_weights);
  EXPECT_TRUE(with("none", most.needed_bytes()).choice.keep_rounded_weights);
  const Plan less = with("none", most.needed_bytes() - 1);
  EXPECT_FALSE(less.choice.keep_rounded_weights);
  EXPECT_LT(less.needed_bytes(), most.needed_bytes());
  EXPECT_GT(less.cost.time.seconds, most.cost.time.seconds);
  EXPECT_EQ(make_plan(chosen_spec(less)).fingerprint, less.fingerprint);
  const Plan open = with("auto", most.needed_bytes() - 1);
  EXPECT_LE(open.cost.time.seconds, less.cost.time.seconds);
  EXPECT_NE(open.choice, less.choice) << "recomputing the norms costs less";
}

TEST(Search, RoundsWeightsInEachMicroBatchIfRecomputingTakesLonger) {
  const auto with = [](const std::string& word, const std::string& budget) {
    const spec::LoadResult loaded = spec::load(
        std::string(SPECS_FOLDER) + "/llama-1b.yaml",
        {"precision.matmul=fp8_full", "batch.micro_batch=16", "batch.tokens=64Ki", word, "memory.budget=" + budget});
    EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
    return make_plan(loaded.resolved->spec);
  };
  const Plan cheap = with("parallel.shard=parameters", "77GiB");  // recomputes norms and SwiGLU
  ASSERT_FALSE(cheap.choice.keep_rounded_weights);
  const Plan same = with("memory.recompute=auto", std::to_string(cheap.needed_bytes()));
  EXPECT_FALSE(same.choice.keep_rounded_weights);
  EXPECT_NEAR(same.cost.time.seconds / cheap.cost.time.seconds, 1, 1e-9);
}

TEST(Search, SharesOutWhatMustBe) {
  const auto shard = [](const char* spec, const char* budget) {
    const spec::LoadResult loaded =
        spec::load(std::string(SPECS_FOLDER) + spec,
                   {"parallel.shard=auto", "parallel.world_size=8", "memory.recompute=auto", "batch.micro_batch=auto",
                    "batch.tokens=1Mi", std::string("memory.budget=") + budget});
    EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
    const Plan plan = make_plan(loaded.resolved->spec);
    EXPECT_EQ(plan.spec.parallel.shard, chosen_spec(plan).parallel.shard);
    return chosen_spec(plan).parallel.shard;
  };
  EXPECT_LT(shard("/llama-1b.yaml", "77GiB"), Shard::gradients) << "nothing is gathered or reduced twice without need";
  EXPECT_GT(shard("/llama-8b.yaml", "77GiB"), Shard::optimizer) << "8 of 18 bytes a parameter do not fit beside theirs";
  EXPECT_EQ(shard("/llama-8b.yaml", "40GiB"), Shard::parameters);
}

/// The default of memory.budget leaves 1 GiB to NCCL: what is said to fit must fit with it.
TEST(Search, LeavesRanksTheirBudget) {
  const auto refusal = [](const std::vector<std::string>& words) {
    try {
      make_plan(spec::load(std::string(SPECS_FOLDER) + "/llama-8b.yaml", words).resolved->spec);
      return std::string();
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
  };
  // 76.81 GiB of weights, state and activations: more than 76, which three ranks have, and less than 77.
  std::vector<std::string> words = {"target.arch=[90a]",          "batch.micro_batch=1",  "memory.recompute=none",
                                    "batch.sequence_length=4992", "batch.tokens=1916928", "parallel.world_size=1"};
  const std::string said = refusal(words);
  EXPECT_TRUE(test::has_facts(said.substr(said.rfind('\n') + 1),
                              {"parallel.world_size: 3", "parallel.shard: parameters", "memory.recompute: auto"}))
      << said;
  words.back() = "parallel.world_size=3";
  words.emplace_back("memory.budget=76GiB");  // the default with several ranks
  words.emplace_back("parallel.shard=parameters");
  EXPECT_NE(refusal(words), "");
  words[2] = "memory.recompute=auto";
  EXPECT_EQ(refusal(words), "");
}

/// 256 sequences of 65,536 tokens with 256 heads have 2^32 rows of heads.
TEST(Search, NoMicroBatchHasMoreRowsThanAreCounted) {
  const spec::LoadResult loaded =
      spec::load(std::string(SPECS_FOLDER) + "/tiny.yaml",
                 {"target={kind: cuda, arch: [100], attention: portable}", "precision.compute=bf16",
                  "model.num_attention_heads=256", "model.num_key_value_heads=16", "model.head_dim=2",
                  "batch.sequence_length=65536", "batch.tokens=16777216", "batch.micro_batch=auto",
                  "memory.loss_chunk=auto", "memory.recompute=full", "memory.budget=b200"});
  ASSERT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  EXPECT_LT(make_plan(loaded.resolved->spec).choice.micro_batch, 128);
}

/// On a CPU no number of ranks is suggested, because they share its memory.
TEST(Search, SaysFromHowManyDevicesARunFits) {
  const auto refusal = [](std::vector<std::string> words) {
    for (const char* word : {"memory.budget=5GiB", "memory.loss_chunk=auto", "memory.recompute=full",
                             "batch.tokens=4000", "batch.sequence_length=125", "model.num_hidden_layers=4"})
      words.emplace_back(word);
    try {
      make_plan(spec::load(std::string(SPECS_FOLDER) + "/llama-1b.yaml", words).resolved->spec);
      return std::string();
    } catch (const Failure& failure) {
      return std::string(failure.what());
    }
  };
  const auto on = [](int ranks, const char* shard) {
    return std::vector<std::string>{fmt::format("parallel.world_size={}", ranks),
                                    fmt::format("parallel.shard={}", shard), "batch.micro_batch=auto"};
  };
  const auto last_line = [](const std::string& text) { return text.substr(text.rfind('\n') + 1); };
  const test::Facts fits = {"5 or more", "parallel.world_size: 5", "parallel.shard: parameters"};
  const std::string said = last_line(refusal({"batch.micro_batch=auto"}));
  EXPECT_TRUE(test::has_facts(said, fits));
  EXPECT_FALSE(test::has_facts(said, "batch.micro_batch"));
  EXPECT_EQ(refusal(on(5, "parameters")), "");
  EXPECT_NE(refusal(on(4, "parameters")), "");
  EXPECT_NE(refusal(on(5, "gradients")), "") << "what is sharded least is named";
  // The spec's constraints on a pass are relaxed if needed. The number does not start from the spec's own.
  const std::string relaxed = last_line(refusal({"batch.micro_batch=16"}));
  EXPECT_TRUE(test::has_facts(relaxed, fits));
  EXPECT_TRUE(test::has_facts(relaxed, {"parallel.shard: parameters", "batch.micro_batch: auto"}));
  EXPECT_TRUE(test::has_facts(last_line(refusal(on(8, "none"))), fits));
  EXPECT_EQ(refusal({"target.kind=cpu", "batch.micro_batch=auto"}).find("devices"), std::string::npos);
}

/// E0322: the audit reads weights that would be sharded.
TEST(Search, AnAuditOfTheForwardPassKeepsTheWeightsWhole) {
  const std::vector<std::string> words = {"precision.compute=bf16", "audit.compute=forward", "parallel.world_size=2",
                                          "parallel.shard=auto"};
  spec::Spec spec = small_spec(words).spec;
  EXPECT_EQ(possible_shards(spec).back(), Shard::gradients);
  spec.memory.budget = 1 << 20;
  Exit code = Exit::done;
  try {
    make_plan(spec);
  } catch (const Failure& failure) {
    code = failure.code();
    EXPECT_EQ(std::string(failure.what()).find("parallel.shard"), std::string::npos) << failure.what();
  }
  EXPECT_EQ(code, Exit::does_not_fit);
  spec.audit.compute = spec::AuditCompute::none;
  EXPECT_EQ(possible_shards(spec).back(), Shard::parameters);
}

TEST(Recompute, IsWrittenAsLayersAndReadBack) {
  for (const char* text : {"none", "full", "[norms, swiglu]", "{layers: {0: full, 2: [norms, attention]}}",
                           "{layers: {0-1: [qkv], 2: full}}"}) {
    const spec::Spec spec = small_spec({std::string("memory.recompute=") + text}).spec;
    EXPECT_EQ(passes::recompute_from(passes::recompute_of(spec), spec.model), spec.memory.recompute) << text;
    EXPECT_EQ(chosen_spec(make_plan(spec)).memory.recompute, spec.memory.recompute) << text;
  }
  for (const char* text : {"[norms, up]", "{layers: {0: full, 2: [up, activation]}}"}) {
    const spec::Spec spec = small_spec({"model.mlp_gated=false", std::string("memory.recompute=") + text}).spec;
    EXPECT_EQ(passes::recompute_from(passes::recompute_of(spec), spec.model), spec.memory.recompute) << text;
    EXPECT_EQ(chosen_spec(make_plan(spec)).memory.recompute, spec.memory.recompute) << text;
  }
}

}  // namespace
}  // namespace llmc::plan
