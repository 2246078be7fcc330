// Costs of known models.
#include "compiler/plan/cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/plan/pieces.h"
#include "compiler/plan/price.h"
#include "small_spec.h"

namespace llmc::plan {
namespace {

Plan of_file(const std::string& name, const std::vector<std::string>& overrides = {}) {
  const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/" + name, overrides);
  EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  return make_plan(loaded.resolved->spec);
}

TEST(Cost, Llama1b) {
  const Plan plan = of_file("llama-1b.yaml");
  EXPECT_EQ(plan.parameters.logical, 1241581568);
  // 6 x (parameters of the linears and the head) + 6 x layers x heads x head_dim x sequence, by hand.
  const double layer = 2048.0 * (2048 + 2 * 512) + 2048.0 * 2048 + 3 * 2048.0 * 8192;
  const double linear = 6 * (16 * layer + 131072.0 * 2048), attention = 6.0 * 16 * 2048 * 2048;
  EXPECT_DOUBLE_EQ(plan.cost.linear_flops_per_token, linear);
  EXPECT_DOUBLE_EQ(plan.cost.attention_flops_per_token, attention);
  EXPECT_DOUBLE_EQ(plan.cost.model_flops_per_token, linear + attention);
  EXPECT_NEAR(plan.cost.model_flops_per_token / 1e9, 7.852, 0.0005);
  EXPECT_EQ(plan.micro_batches(), 32);
}

/// The formula for Llama only: 6 (layers (hidden (q + 2 kv) + q hidden + 3 hidden ffn) + hidden vocab), and 6 layers q
/// sequence.
TEST(Cost, ModelFlopsAreThoseOfTheForwardOps) {
  const struct {
    const char* spec;
    std::vector<std::string> overrides;
    double linear, attention;
  } models[] = {
      {"llama-1b.yaml", {}, 7449083904, 402653184},
      {"llama-8b.yaml", {}, 45027950592, 3221225472},
      {"olmo2-1b.yaml", {}, 7675576320, 805306368},
      {"quickstart.yaml", {}, 34603008, 2359296},
      {"tiny.yaml", {}, 786432, 49152},
      {"llama-1b.yaml", {"model.qk_norm=true", "model.head_dim=128"}, 8455716864, 805306368},
      {"llama-1b.yaml",
       {"parallel.shard=parameters", "parallel.world_size=8", "memory.recompute={every: 2}"},
       7449083904,
       402653184},
      {"tiny.yaml", {"model.tie_word_embeddings=true", "memory.recompute=full"}, 786432, 49152},
      {"quickstart.yaml",  // rows and vocabulary are padded
       {"model.intermediate_size=517", "model.vocab_size=4099", "model.mlp_bias=true", "memory.loss_chunk=auto"},
       27667968,
       2359296},
      {"quickstart.yaml",
       {"batch.sequence_length=129", "batch.tokens=1032", "model.num_key_value_heads=1"},
       32833536,
       1188864}};
  for (const auto& model : models) {
    const Cost cost = of_file(model.spec, model.overrides).cost;
    EXPECT_EQ(cost.linear_flops_per_token, model.linear) << model.spec;
    EXPECT_EQ(cost.attention_flops_per_token, model.attention) << model.spec;
    EXPECT_EQ(cost.model_flops_per_token, model.linear + model.attention) << model.spec;
  }
}

TEST(Cost, LaunchesAreWhatTheStepDoes) {
  const Plan plan = of_file("quickstart.yaml");
  std::int64_t launches = 0;
  double flops = 0;
  for (const Launch& launch : plan.launches) {
    const std::int64_t times = launch.per_step ? launch.times : launch.times * plan.micro_batches();
    launches += times;
    flops += static_cast<double>(times) * launch.flops;
  }
  EXPECT_EQ(plan.cost.launches_per_step, launches);
  EXPECT_NEAR(plan.cost.hardware_flops_per_step, flops, 1e-9 * flops);
  // Without recomputation nearly all FLOPs are the model's; attention's backward recomputes the scores.
  const double model = plan.cost.model_flops_per_token * static_cast<double>(plan.spec.batch.tokens);
  EXPECT_GT(flops, model);
  EXPECT_LT(flops, 1.1 * model);
}

/// With any sharding a rank's table of chunks has its shares alone. The trainer times all of them, on one rank.
TEST(Cost, OfTheOptimizerIsThatOfARanksShare) {
  const auto of = [](const char* ranks, const char* shard, const char* optimizer) {
    return of_file("llama-1b.yaml",
                   {std::string("parallel.world_size=") + ranks, std::string("parallel.shard=") + shard,
                    std::string("optimizer.kind=") + optimizer, "batch.micro_batch=4", "memory.recompute=none"});
  };
  const auto streams = [](const Plan& plan) {
    std::vector<std::pair<double, double>> costs;
    for (const Launch& launch : plan.launches)
      for (const char* name : {"gradient_norm", "adamw", "lion", "muon_momentum", "muon_copy"})
        if (launch.call == ops::Call::kernel && launch.what.starts_with(name))
          costs.emplace_back(launch.bytes, launch.flops);
    return costs;
  };
  for (const char* optimizer : {"adamw", "lion", "muon"}) {
    const Plan one = of("1", "optimizer", optimizer);
    const auto alone = streams(one), whole = streams(of("8", "none", optimizer));
    EXPECT_GE(alone.size(), 2u) << optimizer;
    EXPECT_EQ(alone, whole) << optimizer;
    for (const char* shard : {"optimizer", "gradients", "parameters"}) {
      const Plan eight = of("8", shard, optimizer);
      const auto shared = streams(eight);
      ASSERT_EQ(shared.size(), alone.size()) << optimizer << ", " << shard;
      for (std::size_t i = 0; i < shared.size(); ++i) {
        EXPECT_DOUBLE_EQ(8 * shared[i].first, alone[i].first) << optimizer << ", " << shard;
        EXPECT_DOUBLE_EQ(8 * shared[i].second, alone[i].second) << optimizer << ", " << shard;
      }
      EXPECT_EQ(work_of(eight, StepPiece::optimizer).bytes, work_of(one, StepPiece::optimizer).bytes);
    }
  }
}

/// Launches in a step that round weights, and their seconds.
std::pair<std::int64_t, double> rounding_of_weights(const Plan& plan) {
  std::pair<std::int64_t, double> sum = {0, 0};
  for (const Launch& launch : plan.launches) {
    const graph::Op& op = plan.graph.regions[launch.region_index].ops[launch.op_index];
    if (op.kind != graph::OpKind::quantise && op.kind != graph::OpKind::quantise_transposed) continue;
    if (plan.graph.at(op.inputs[0]).role != graph::Role::copy) continue;
    const std::int64_t times = plan.times_a_step(launch);
    sum.first += times;
    sum.second += static_cast<double>(times) * price(plan, launch).seconds;
  }
  return sum;
}

TEST(Cost, WeightsOfFp8ProductsAreRoundedOnceAStep) {
  const auto of = [](const char* tokens, const char* shard) {
    return of_file("llama-1b.yaml", {"precision.matmul=fp8_full", "batch.micro_batch=16", tokens,
                                     std::string("parallel.shard=") + shard});
  };
  const Plan one = of("batch.tokens=32Ki", "optimizer"), four = of("batch.tokens=128Ki", "optimizer"),
             gathered = of("batch.tokens=128Ki", "parameters");
  EXPECT_TRUE(one.choice.keep_rounded_weights) << "both passes of a micro-batch read them";
  EXPECT_TRUE(four.choice.keep_rounded_weights);
  EXPECT_FALSE(gathered.choice.keep_rounded_weights) << "no rank has memory for all weights";
  const auto [launches, seconds] = rounding_of_weights(four);
  EXPECT_EQ(launches, 4 * 16) << "four matrices of each layer, whose kernels write two layouts";
  EXPECT_EQ(rounding_of_weights(one).first, launches);
  const auto [each, each_seconds] = rounding_of_weights(gathered);
  EXPECT_EQ(each, 4 * 2 * launches) << "each layout in the pass that reads it";
  EXPECT_GT(seconds, 1e-3);
  EXPECT_NEAR((gathered.cost.time.seconds - four.cost.time.seconds) / (each_seconds - seconds), 1, 0.001);
  // Two bytes for each weight of the layers' matrices, and the scales of their rows.
  const double weights = 16 * (2048.0 * 3072 + 2048.0 * 2048 + 3 * 2048.0 * 8192);
  const auto section = std::ranges::find(four.layout.sections, "rounded weights", &Section::name);
  ASSERT_NE(section, four.layout.sections.end());
  EXPECT_NEAR(static_cast<double>(section->bytes) / (2 * weights), 1, 0.005);
}

/// Blocks per cluster, and how often the kernel moves its logits.
std::pair<std::int64_t, double> cross_entropy(const std::vector<std::string>& overrides) {
  const Plan plan = of_file("llama-1b.yaml", overrides);
  const auto rows = static_cast<double>(plan.graph.chunk_rows),
             columns = static_cast<double>(plan.spec.model.vocab_size);
  for (const Kernel& k : plan.kernels)
    if (k.name == "cross_entropy_gradient")
      // Besides its logits, each row has a target and four results.
      return {k.cluster, (k.bytes - 20.0 * rows) / (2.0 * rows * columns)};
  return {};
}

/// Bytes of all launches per micro-batch (per_step: per step) of kernels with this prefix, in GB, and the stream's part
/// of them.
std::pair<double, double> gigabytes(const Plan& plan, const std::string& kernel) {
  std::pair<double, double> sum = {0, 0};
  for (const Launch& launch : plan.launches)
    if (launch.what.rfind(kernel, 0) == 0) {
      sum.first += 1e-9 * static_cast<double>(launch.times) * launch.bytes;
      sum.second += 1e-9 * static_cast<double>(launch.times) * launch.stream_bytes;
    }
  return sum;
}

/// q and k are read and written, v is copied; backward reads and writes their gradients and reads q and k. The rest is
/// one rstd per head and the table.
TEST(Cost, NormsOfHeadsMoveQAndKOnce) {
  const Plan plan = of_file("llama-1b.yaml", {"model.qk_norm=true", "memory.recompute=none", "memory.budget=200GiB"});
  const double tokens = 16.0 * 2048, layers = 16, turned = tokens * (32 + 8) * 64, values = tokens * 8 * 64;
  const double backward = 1e-9 * layers * 3 * 2 * turned, forward = 1e-9 * layers * 2 * 2 * (turned + values);
  const double planned = gigabytes(plan, "qk_norm_rope_backward").first;
  EXPECT_GE(planned, backward);
  EXPECT_LE(planned, 1.02 * backward);
  EXPECT_GE(gigabytes(plan, "qk_norm_rope").first - planned, forward);
  EXPECT_LE(gigabytes(plan, "qk_norm_rope").first - planned, 1.02 * forward);
}

/// Minimum traffic of each pass, from formulas for the reference run: each tensor once, everything in bf16 that may be.
/// Traffic beyond that is the fp32 stream or less than a tenth.
TEST(Cost, KernelsOfTheLargeRunMoveWhatTheyMust) {
  const Plan plan = of_file("llama-1b.yaml");
  const spec::Model& m = plan.spec.model;
  const double tokens = 16.0 * 2048, layers = 16, parameters = static_cast<double>(plan.parameters.logical);
  const double hidden = tokens * 2048, ffn = tokens * 8192, heads = tokens * (32 + 8) * 64;  // elements
  const double norms = 2 * layers;
  struct Row {
    const char* kernel;
    double gigabytes, stream;  // bytes of the fp32 stream beyond a bf16 one
  };
  const Row rows[] = {
      {"rms_norm_forward", 1e-9 * norms * 2 * 2 * hidden, 1e-9 * (norms + 1) * 2 * hidden},   // x, y
      {"rms_norm_backward", 1e-9 * norms * 2 * 5 * hidden, 1e-9 * (norms + 1) * 2 * hidden},  // dy, x, dresidual, dx, y
      {"rope", 1e-9 * layers * 2 * 2 * heads, 0},           // forward, in place; attention rotates its gradients
      {"swiglu_forward", 1e-9 * layers * 3 * 2 * ffn, 0},   // gate, up, s
      {"swiglu_backward", 1e-9 * layers * 6 * 2 * ffn, 0},  // and ds, dgate, dup
      {"cross_entropy", 1e-9 * 2 * 2 * tokens * static_cast<double>(m.vocab_size), 0},  // logits, dlogits
      {"adamw", 1e-9 * 30 * parameters, 0},
      {"gradient_norm", 1e-9 * 4 * parameters, 0},
      {"embedding_forward", 1e-9 * 2 * 2 * hidden, 1e-9 * 2 * 2 * hidden},  // rows of the table, x
      {"o_forward", 1e-9 * layers * 2 * (3 * hidden + 2048.0 * 2048),
       1e-9 * layers * 4 * hidden},  // A, C, D, the weight
  };
  const double figures[] = {8.6, 21.5, 5.4, 25.8, 51.5, 17.2, 37.2, 5.0};
  for (std::size_t i = 0; i < std::size(figures); ++i)
    EXPECT_NEAR(rows[i].gigabytes, figures[i], 0.06) << rows[i].kernel;
  for (const Row& row : rows) {
    const auto [bytes, stream] = gigabytes(plan, row.kernel);
    EXPECT_NEAR(stream, row.stream, 1e-6) << row.kernel;
    EXPECT_GE(bytes - stream, 0.999 * row.gigabytes) << row.kernel;
    EXPECT_LE(bytes - stream, 1.1 * row.gigabytes) << row.kernel;
  }
}

TEST(Cost, TheStreamsBytesAreWhatABf16StreamSaves) {
  const Plan wide = of_file("llama-1b.yaml"), narrow = of_file("llama-1b.yaml", {"precision.residual=bf16"});
  const double passes = static_cast<double>(wide.micro_batches());
  EXPECT_NEAR(wide.cost.stream_bytes_per_step / passes / 1e9, 17.7, 0.05);
  EXPECT_NEAR(wide.cost.bytes_per_step - narrow.cost.bytes_per_step, wide.cost.stream_bytes_per_step, 1);
  EXPECT_EQ(narrow.cost.stream_bytes_per_step, 0);
  EXPECT_EQ(of_file("quickstart.yaml").cost.stream_bytes_per_step, 0);
  // In the arena: half of the difference is the stream between layers, half is within layers.
  EXPECT_EQ(wide.layout.bytes - narrow.layout.bytes, std::size_t{17 + 16} * 2 * 32768 * 2048);
}

TEST(Cost, AccumulationReadsWhatItAddsTo) {
  const auto bytes = [](const std::vector<std::string>& overrides, const char* product) {
    const Plan plan = of_file("llama-1b.yaml", overrides);
    for (const Launch& launch : plan.launches)
      if (launch.what == product) return launch.bytes;
    return 0.0;
  };
  const std::vector<std::string> one = {"batch.tokens=32768"}, two = {"batch.tokens=65536"};
  EXPECT_NEAR(bytes(two, "o_wgrad") - bytes(one, "o_wgrad"), 0.5 * 4 * 2048 * 2048, 1);  // one of two
  EXPECT_NEAR(bytes(two, "lm_head_wgrad") - bytes(one, "lm_head_wgrad"), (7.0 / 8 - 3.0 / 4) * 4 * 131072 * 2048, 1);
  EXPECT_EQ(bytes(two, "o_dgrad"), bytes(one, "o_dgrad"));
}

TEST(Cost, AutoTakesTheSmallestLossChunkThatCostsNothing) {
  const auto chunk = [](std::vector<std::string> overrides) {
    overrides.push_back("memory.loss_chunk=auto");
    return of_file("llama-1b.yaml", overrides).choice.loss_chunk;
  };
  EXPECT_EQ(chunk({}), 8192);
  EXPECT_EQ(chunk({"batch.micro_batch=64", "memory.recompute=full", "memory.budget=141GiB"}), 8192);
  EXPECT_EQ(chunk({"batch.micro_batch=2", "batch.tokens=8192"}), 4096);  // all rows
  EXPECT_EQ(chunk({"batch.sequence_length=1500", "batch.micro_batch=8", "batch.tokens=24000"}),
            12000);  // no divisor from 8,192 on except all rows
  const Plan large = of_file("llama-1b.yaml");
  const std::string less = "memory.budget=" + std::to_string(large.layout.bytes - (64u << 20));
  EXPECT_EQ(chunk({less}), 4096);
}

TEST(Cost, LongRowsOfLogitsAreReadOnceWhereThereAreClusters) {
  using Figures = std::pair<std::int64_t, double>;
  EXPECT_EQ(cross_entropy({}), Figures(8, 2));
  EXPECT_EQ(cross_entropy({"memory.budget=77GiB", "target.arch=[80]"}),
            Figures(1, 3));                                            // once for the sum, once for the gradient
  EXPECT_EQ(cross_entropy({"target.arch=[80, 90a]"}), Figures(1, 3));  // one launch for both
  EXPECT_EQ(cross_entropy({"memory.budget=77GiB", "target.arch=[80]", "model.vocab_size=40960"}), Figures(1, 2));
  EXPECT_EQ(cross_entropy({"memory.budget=77GiB", "target.arch=[80]", "model.vocab_size=40968"}), Figures(1, 3));
  EXPECT_EQ(cross_entropy({"model.vocab_size=32768"}), Figures(1, 2));  // 64 KiB
  EXPECT_EQ(cross_entropy({"model.vocab_size=32776"}), Figures(4, 2));
  EXPECT_EQ(cross_entropy({"model.vocab_size=163840"}), Figures(8, 2));  // five vectors of a lane
  EXPECT_EQ(cross_entropy({"model.vocab_size=163848"}), Figures(8, 3));
  EXPECT_EQ(cross_entropy({"model.vocab_size=300000"}), Figures(8, 3));
}

/// Names of the plan's attention kernels.
std::set<std::string> attention(const std::vector<std::string>& overrides) {
  std::set<std::string> names;
  for (const Kernel& k : of_file("quickstart.yaml", overrides).kernels)
    if (k.name.rfind("attention", 0) == 0) names.insert(k.name);
  return names;
}

TEST(Cost, AttentionIsInTilesWhereTheArchHasThem) {
  const std::set<std::string> portable = {"attention_forward", "attention_backward"};
  const std::set<std::string> tiles = {"attention_forward_tiles", "attention_backward_tiles"};
  EXPECT_EQ(attention({"precision.compute=bf16", "target.arch=sapphirerapids"}), tiles);
  EXPECT_EQ(attention({"precision.compute=bf16", "target.arch=cooperlake"}), portable);
  EXPECT_EQ(attention({"precision.compute=bf16"}), portable);      // native: same plan on every machine
  EXPECT_EQ(attention({"target.arch=sapphirerapids"}), portable);  // fp32
}

TEST(Cost, Fp32ProductsAreBf16x3OnRequestOnly) {
  const auto split = [](const std::vector<std::string>& overrides, const char* file = "quickstart.yaml") {
    std::set<std::string> names;
    for (const Product& p : of_file(file, overrides).products)
      if (p.shape.bf16x3()) names.insert(p.name);
    return names;
  };
  const std::string tiles = "target.arch=sapphirerapids";
  EXPECT_TRUE(split({tiles}).empty()) << "never chosen by itself";
  EXPECT_TRUE(split({tiles, "precision.compute=bf16"}).empty());
  EXPECT_TRUE(split({tiles, "precision.compute=bf16", "audit.compute=logits"}).empty()) << "an audit is in fp32";
  const Plan plan = of_file("quickstart.yaml", {tiles, "precision.matmul=bf16x3"});
  std::set<std::string> in_fp32;
  for (const Product& p : plan.products) {
    EXPECT_EQ(p.shape.operand, DType::f32);
    const bool fits = p.shape.m % 32 == 0 && p.shape.n % 32 == 0 && p.shape.k % 32 == 0;
    EXPECT_EQ(p.shape.bf16x3(), fits) << p.name;
    if (!fits) in_fp32.insert(p.name);
  }
  EXPECT_EQ(in_fp32, std::set<std::string>{"sample_logits_forward"});  // 8 rows
  EXPECT_TRUE(split({tiles, "precision.matmul=bf16x3", "model.hidden_size=272", "model.head_dim=34"}).empty());
}

TEST(Cost, Fp32ProductsAreTf32OnRequestOnly) {
  const auto read_in_tf32 = [](const char* matmul) {
    std::size_t count = 0;
    for (const Product& p :
         of_file("llama-1b.yaml", {"precision.compute=fp32", "audit.compute=logits", "memory.budget=200GiB", matmul})
             .products) {
      EXPECT_TRUE(!p.shape.tf32 || p.name != "audit_logits_forward") << "an audit is in fp32";
      count += p.shape.tf32;
    }
    return count;
  };
  EXPECT_EQ(read_in_tf32("precision.matmul=auto"), 0u);
  EXPECT_GT(read_in_tf32("precision.matmul=tf32"), 14u);
}

TEST(Cost, RecomputationAddsLaunchesAndFlops) {
  const Cost none = make_plan(small_spec().spec).cost;
  const Cost full = make_plan(small_spec({"memory.recompute=full"}).spec).cost;
  EXPECT_GT(full.launches_per_step, none.launches_per_step);
  EXPECT_GT(full.hardware_flops_per_step, none.hardware_flops_per_step);
  EXPECT_EQ(full.model_flops_per_token, none.model_flops_per_token);
}

TEST(Cost, EveryLaunchHasItsKernelOrProduct) {
  for (const char* file : {"tiny.yaml", "quickstart.yaml", "llama-1b.yaml"}) {
    const Plan plan = of_file(file);
    std::set<std::string> names;
    for (const Kernel& k : plan.kernels) EXPECT_TRUE(names.insert(k.name).second) << k.name;
    for (const Product& p : plan.products) EXPECT_TRUE(names.insert(p.name).second) << p.name;
    for (const Launch& launch : plan.launches)
      if (launch.call == ops::Call::kernel || launch.call == ops::Call::product) {
        EXPECT_TRUE(names.count(launch.what)) << file << ": " << launch.what;
      }
  }
}

TEST(Cost, ParamsOfOneKernelAreUnique) {
  for (const char* file : {"tiny.yaml", "llama-1b.yaml"}) {
    const Plan plan = of_file(file);
    for (const Kernel& kernel : plan.kernels) {
      std::set<std::string> names;
      for (const KernelParam& p : kernel.params) {
        EXPECT_TRUE(names.insert(p.name).second) << kernel.name << ": " << p.name;
        EXPECT_FALSE(p.value.empty() || p.type.empty()) << kernel.name << ": " << p.name;
        EXPECT_NE(kernel.key().find(p.name), std::string::npos);
      }
    }
  }
}

}  // namespace
}  // namespace llmc::plan
