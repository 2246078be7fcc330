// Chooses the attention implementation on CUDA: by predicted time, by cuDNN's support, by memory.budget, and as the
// spec says.
#include <gtest/gtest.h>

#include <algorithm>

#include "compiler/ops/attention/choice.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/price.h"
#include "error.h"
#include "small_spec.h"

namespace llmc::plan {
namespace {

constexpr AttentionBy kCudnn = AttentionBy::cudnn, kPortable = AttentionBy::portable;
using By = std::vector<AttentionBy>;

By by(const std::vector<BackwardWay>& ways) {
  By result;
  for (const BackwardWay& way : ways) result.push_back(way.by);
  return result;
}

/// Plan of the reference run with overrides.
Plan llama(const std::vector<std::string>& overrides) {
  const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/llama-1b.yaml", overrides);
  EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  return make_plan(loaded.resolved->spec);
}

ops::AttentionChoice only(const Plan& plan) {
  EXPECT_EQ(plan.attention.list.size(), 1u);
  return plan.attention.list.front();
}

ops::AttentionChoice choice(const std::vector<std::string>& overrides) { return only(llama(overrides)); }

/// Seconds of a step's backward passes of attention.
double backward_seconds(const Plan& plan) {
  double seconds = 0;
  for (const Launch& launch : plan.launches)
    if (launch.what.starts_with("attention_backward")) seconds += price(plan, launch).seconds;
  return seconds;
}

TEST(AttentionChoice, AnotherGpuIsSlowerByItsPeak) {
  const Plan sxm = llama({}), pcie = llama({"target.device=h100-pcie"});
  EXPECT_GT(backward_seconds(sxm), 1e-3);
  EXPECT_NEAR(backward_seconds(pcie) / backward_seconds(sxm), 989.0 / 756, 0.01);
  const BackwardWay way = only(pcie).backward[0];
  EXPECT_EQ(way.predicted_ms, only(sxm).backward[0].predicted_ms) << "a label changes no source";
  EXPECT_NEAR(predicted_ms(way, pcie.device), way.predicted_ms * 989 / 756, 1e-9);
}

TEST(AttentionChoice, BothWaysByPredictedTime) {
  // By hand: a product of 16 x 32 x 2048 x 2048 scores and 64 columns is 137.4 GFLOP. cuDNN: five at 249 TFLOP/s, and 2
  // bytes of each of 2.15 G scores twice at 13 TB/s. Own warpgroup passes: seven at 395 TFLOP/s.
  const ops::AttentionChoice narrow = choice({});
  ASSERT_EQ(by(narrow.backward), (By{kPortable, kCudnn}));
  EXPECT_EQ(narrow.forward, kCudnn);
  EXPECT_NEAR(narrow.backward[0].predicted_ms, 7 * 137.439 / 395, 1e-3);
  EXPECT_NEAR(narrow.backward[1].predicted_ms, 5 * 137.439 / 249 + 4 * 2.147484 / 13, 1e-3);
  // Heads of 128 have twice the FLOPs, at the rate that counts predict; narrower ones are padded to as many, which pays
  // for 96 columns and not for 80.
  for (const char* width : {"model.head_dim=128", "model.head_dim=96", "model.head_dim=80"}) {
    const ops::AttentionChoice wide = choice({width});
    const bool pays = std::string(width) != "model.head_dim=80";
    ASSERT_EQ(by(wide.backward), pays ? (By{kPortable, kCudnn}) : (By{kCudnn, kPortable})) << width;
    EXPECT_NEAR(wide.backward[pays ? 0 : 1].predicted_ms, narrow.backward[0].predicted_ms * 53.0 / 30.4, 1e-3) << width;
  }
  // Groups of an odd number of query heads share no copies of keys.
  const ops::AttentionChoice threes = choice({"model.head_dim=128", "model.num_attention_heads=24"});
  EXPECT_NEAR(threes.backward[0].predicted_ms, 0.75 * narrow.backward[0].predicted_ms * 56.5 / 30.4, 1e-3);
  // By warps, wider heads mean larger products and equally many scores, so the own passes are slower.
  for (const std::vector<std::string>& by_warps :
       {std::vector<std::string>{"model.head_dim=256"}, {"model.head_dim=128", "target.arch=[90]"}}) {
    const ops::AttentionChoice wide = choice(by_warps);
    ASSERT_EQ(by(wide.backward), (By{kCudnn, kPortable})) << by_warps[0];
    EXPECT_LT(wide.backward[0].predicted_ms, wide.backward[1].predicted_ms) << by_warps[0];
  }
}

TEST(AttentionChoice, WarpgroupsHaveHeadsThatPaddingDoesNotMakeSlower) {
  const auto warpgroups = [](int head_dim, const std::vector<std::string>& overrides = {}) {
    std::vector<std::string> words = {"target.attention=portable", "memory.budget=77GiB",
                                      "model.head_dim=" + std::to_string(head_dim)};
    words.insert(words.end(), overrides.begin(), overrides.end());
    const std::int64_t tile = 2 * 64 * (head_dim > 64 ? 128 : 64);
    int kernels = 0, all = 0;
    for (const Kernel& kernel : llama(words).kernels) {
      if (!kernel.template_name.starts_with("attention")) continue;
      ++all;
      if (!kernel.template_name.ends_with("_warpgroups")) continue;
      ++kernels;
      const bool keys = kernel.template_name.find("keys") != std::string::npos;
      // The query heads of a group share copies of keys and values where that pays.
      const bool shared = !keys && (head_dim > 64 || kernel.template_name.find("forward") != std::string::npos);
      EXPECT_EQ(kernel.cluster, shared ? 4 : 1) << kernel.name;
      EXPECT_EQ(kernel.shared, keys ? (head_dim > 64 ? 6 : 4) * tile + 1024 : 4 * tile + (shared ? 32 : 0))
          << kernel.name;
      EXPECT_EQ(kernel.blocks, 16 * 2048 / 64 * (keys ? 8 : 32)) << kernel.name;
    }
    EXPECT_EQ(all, 3);
    return kernels;
  };
  for (const int head_dim : {48, 64, 72, 80, 96, 128}) EXPECT_EQ(warpgroups(head_dim), 3) << head_dim;
  for (const int head_dim : {32, 40, 66, 136, 256}) EXPECT_EQ(warpgroups(head_dim), 0) << head_dim;
  EXPECT_EQ(warpgroups(64, {"target.arch=[90a, 100]"}), 0);
  EXPECT_EQ(warpgroups(128, {"model.attn_logit_softcapping=50"}), 3);
}

TEST(AttentionChoice, WithoutRatesCudnnIsFirst) {
  for (const char* arch : {"target.arch=[80]", "target.arch=[100]", "target.arch=[90a, 100]"}) {
    const ops::AttentionChoice c = choice({"memory.budget=77GiB", arch});
    ASSERT_EQ(by(c.backward), (By{kCudnn, kPortable})) << arch;
    EXPECT_EQ(c.backward[0].predicted_ms, 0) << arch;
    EXPECT_EQ(c.backward[1].predicted_ms, 0) << arch;
  }
}

TEST(AttentionChoice, WhereCudnnHasNoneTheOwnKernelsDoAll) {
  // Not a multiple of 8; wider than 128, supported only on Hopper; wider than 128 on one of two architectures.
  for (const std::vector<std::string>& overrides : {std::vector<std::string>{"model.head_dim=66"},
                                                    {"model.head_dim=192", "memory.budget=77GiB", "target.arch=[80]"},
                                                    {"model.head_dim=192", "target.arch=[90a, 100]"}}) {
    const ops::AttentionChoice c = choice(overrides);
    EXPECT_EQ(c.forward, kPortable) << overrides[0];
    EXPECT_EQ(by(c.backward), By{kPortable}) << overrides[0];
  }
  EXPECT_EQ(choice({"model.head_dim=192"}).forward, kCudnn);
}

TEST(AttentionChoice, Fp32IsOfTheOwnKernels) {
  const Plan plan = llama({"precision.compute=fp32"});
  EXPECT_EQ(only(plan).forward, kPortable);
  ASSERT_EQ(by(only(plan).backward), By{kPortable});
  EXPECT_EQ(only(plan).backward[0].predicted_ms, 0);  // the device file has the rates
  int kernels = 0;
  for (const Kernel& kernel : plan.kernels) {
    if (!kernel.template_name.starts_with("attention")) continue;
    EXPECT_TRUE(kernel.template_name.ends_with("_scalar")) << kernel.name;
    EXPECT_EQ(kernel.blocks, 16 * 2048 / 64 * (kernel.template_name.find("keys") != std::string::npos ? 8 : 32))
        << kernel.name;
    ++kernels;
  }
  EXPECT_EQ(kernels, 3);
  // Two products of a layer at 0.4 of 67 TFLOP/s.
  const auto forward = std::ranges::find_if(plan.launches, [](const Launch& l) { return l.op == "attention"; });
  ASSERT_NE(forward, plan.launches.end());
  EXPECT_NEAR(price(plan, *forward).seconds, 2 * 0.137439 / (0.4 * 67), 1e-5);
}

TEST(AttentionChoice, ANamedWayIsTheOnlyOne) {
  const ops::AttentionChoice cudnn = choice({"target.attention=cudnn"});
  EXPECT_EQ(cudnn.forward, kCudnn);
  EXPECT_EQ(by(cudnn.backward), By{kCudnn});
  const ops::AttentionChoice portable = choice({"target.attention=portable"});
  EXPECT_EQ(portable.forward, kPortable);
  EXPECT_EQ(by(portable.backward), By{kPortable});
  EXPECT_EQ(by(choice({"deterministic=false"}).backward), By{kCudnn});  // no cost of determinism to avoid
}

TEST(AttentionChoice, TheWorkspaceIsWhatAnyNeeds) {
  const Plan both = llama({}), cudnn = llama({"target.attention=cudnn"});
  EXPECT_EQ(only(both).workspace_bytes(), attention_workspace_bytes(only(both).shape));
  EXPECT_EQ(only(both).workspace_bytes(), only(cudnn).workspace_bytes());
  EXPECT_EQ(both.layout.bytes, cudnn.layout.bytes);
  // One kernel per pass, whichever implementation comes first.
  for (const Plan& plan : {both, llama({"model.head_dim=128"})}) {
    int kernels = 0;
    for (const Kernel& kernel : plan.kernels) kernels += kernel.template_name.starts_with("attention_backward");
    EXPECT_EQ(kernels, 2);
  }
  for (const Kernel& kernel : cudnn.kernels) EXPECT_FALSE(kernel.template_name.starts_with("attention")) << kernel.name;
}

TEST(AttentionChoice, OwnKernelsByWarpgroupsRotateTheirResults) {
  const auto rotations = [](const std::vector<std::string>& overrides) {
    const Plan plan = llama(overrides);
    std::int64_t times = 0;
    for (const Launch& launch : plan.launches)
      if (launch.what.starts_with("rope_") && launch.what.ends_with("inverse")) times += launch.times;
    return times;
  };
  EXPECT_EQ(rotations({}), 0);
  EXPECT_EQ(rotations({"model.head_dim=128"}), 0);
  EXPECT_EQ(rotations({"target.attention=portable"}), 0);
  EXPECT_EQ(rotations({"target.attention=cudnn"}), 16);
  EXPECT_EQ(rotations({"deterministic=false"}), 16);
  EXPECT_EQ(rotations({"target.arch=[90]"}), 16);
  EXPECT_EQ(rotations({"model.head_dim=72"}), 16);  // pairs lie in two lanes
  EXPECT_EQ(rotations({"model.partial_rotary_factor=0.5"}), 16);
  // Layers of one mask have the same kernels, which rotate in none of them.
  EXPECT_EQ(rotations({"model.no_rope_layers=4"}), 12);
  EXPECT_EQ(rotations({"model.no_rope_layers=4", "model.sliding_window=512",
                       "model.layer_types=[sliding_attention, sliding_attention, sliding_attention, full_attention]"}),
            0);
}

TEST(AttentionChoice, AKernelRotatesWhatCudnnLeaves) {
  const Plan plan = llama({});
  const auto rotation = std::ranges::find(plan.launches, ops::Call::rotate_back, &Launch::call);
  ASSERT_NE(rotation, plan.launches.end());
  EXPECT_EQ(rotation->what, "rope_inverse");
  EXPECT_EQ(rotation->times, 0);  // llmc's kernels are predicted to be faster
  for (const Launch& launch : llama({"target.attention=portable"}).launches)
    EXPECT_NE(launch.call, ops::Call::rotate_back) << launch.op;
}

TEST(AttentionChoice, IsOneForEachMask) {
  const Plan plan = llama({});
  graph::Graph graph = plan.graph;
  graph::Region sliding = *graph.find(graph::Part::forward, graph::Block::layer);
  for (graph::Op& op : sliding.ops)
    if (auto* attention = std::get_if<ops::AttentionAttributes>(&op.attributes)) attention->window = 512;
  graph.regions.push_back(sliding);
  graph.regions.push_back(sliding);
  ops::AttentionChoices choices = ops::choose_attention(graph, plan.spec);
  ASSERT_EQ(choices.list.size(), 2u);
  const ops::AttentionChoice &all = choices.list[0], &window = choices.list[1];
  EXPECT_EQ(ops::attention_suffix(all.shape) + "|" + ops::attention_suffix(window.shape), "|_window_512");
  // A window of a quarter of the sequence leaves a quarter of the square minus half of its own: 7/16 of causal.
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_NEAR(window.backward[i].predicted_ms, all.backward[i].predicted_ms * 7 / 16, 1e-2);
  for (const graph::Op& op : sliding.ops)
    if (std::holds_alternative<ops::AttentionAttributes>(op.attributes)) {
      EXPECT_EQ(&choices.of(graph, op, plan.spec), &window);
    }
  EXPECT_TRUE(choices.leave_out_largest());
  EXPECT_TRUE(choices.leave_out_largest());
  EXPECT_FALSE(choices.leave_out_largest());
  EXPECT_EQ(by(all.backward), By{kPortable});
  EXPECT_EQ(by(window.left_out), By{kCudnn});
}

TEST(AttentionChoice, AWayThatDoesNotFitTheBudgetIsLeftOut) {
  // Long sequences in small layers: dP of one sequence is most of the live memory.
  const std::vector<std::string> small = {"model.num_hidden_layers=1",  "model.vocab_size=512",
                                          "batch.sequence_length=8192", "batch.micro_batch=1",
                                          "batch.tokens=16384",         "memory.loss_chunk=2048"};
  const auto with_budget = [&](std::size_t bytes) {
    std::vector<std::string> overrides = small;
    overrides.push_back("memory.budget=" + std::to_string(bytes));
    return llama(overrides);
  };
  const Plan both = llama(small);
  ASSERT_EQ(by(only(both).backward), (By{kPortable, kCudnn}));
  // The GEMM workspace shrinks first, then cuDNN's backward pass is dropped.
  const std::size_t narrow = both.layout.bytes - (kTunedWorkspace - kUntunedWorkspace);
  EXPECT_EQ(by(only(with_budget(narrow)).backward), (By{kPortable, kCudnn}));
  const Plan one = with_budget(narrow - 1);
  EXPECT_EQ(by(only(one).backward), By{kPortable});
  EXPECT_EQ(by(only(one).left_out), By{kCudnn});
  EXPECT_EQ(only(one).forward, kCudnn);
  EXPECT_LT(one.layout.bytes, narrow);
  EXPECT_LT(only(one).workspace_bytes(), only(both).workspace_bytes());
}

/// cuDNN's workspace has at least one group of heads of a sequence: 32 GiB of 65,536 tokens, 128 GiB of 131,072.
TEST(AttentionChoice, AWorkspaceThatTakesTheRoomOfActivationsIsLeftOut) {
  const auto long_sequences = [](const char* length, const char* attention) {
    return llama({"batch.micro_batch=1", "memory.recompute=auto", length, attention});
  };
  for (const char* length : {"batch.sequence_length=65536", "batch.sequence_length=131072"}) {
    const Plan plan = long_sequences(length, "target.attention=auto");
    EXPECT_EQ(by(only(plan).backward), By{kPortable}) << length;
    EXPECT_EQ(by(only(plan).left_out), By{kCudnn}) << length;
    EXPECT_EQ(plan.choice, long_sequences(length, "target.attention=portable").choice) << length;
  }
  // Here recomputing more takes less than 0.5 % of the time.
  EXPECT_EQ(by(only(long_sequences("batch.sequence_length=32768", "target.attention=auto")).backward),
            (By{kPortable, kCudnn}));
}

/// cuDNN computes slices of a batch whose size is prime one sequence at a time, so that its memory is the smaller one.
TEST(AttentionChoice, CudnnsGradientsAreRotatedAlsoWithoutOwnKernels) {
  std::vector<std::string> words = {
      "model.num_hidden_layers=1",   "model.vocab_size=512",      "model.hidden_size=64",   "model.head_dim=64",
      "model.intermediate_size=192", "batch.sequence_length=256", "batch.micro_batch=1021", "batch.tokens=261376",
      "memory.loss_chunk=auto",      "memory.recompute=none"};
  const std::size_t narrow = llama(words).layout.bytes - (kTunedWorkspace - kUntunedWorkspace);
  words.push_back("memory.budget=" + std::to_string(narrow - 1));
  const Plan plan = llama(words);
  ASSERT_EQ(by(only(plan).backward), By{kCudnn});
  ASSERT_EQ(by(only(plan).left_out), By{kPortable});
  const auto rotation = std::ranges::find(plan.launches, ops::Call::rotate_back, &Launch::call);
  ASSERT_NE(rotation, plan.launches.end());
  EXPECT_EQ(rotation->times, 1);
}

}  // namespace
}  // namespace llmc::plan
