// The alignment that a product's shape has, against the addresses of all its calls.
#include "compiler/plan/alignment.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "small_spec.h"

namespace llmc::plan {
namespace {

using namespace graph;

Plan cuda_plan(std::vector<std::string> overrides) {
  overrides.insert(overrides.end(), {"target.kind=cuda", "target.arch=[90a]", "target.attention=portable"});
  overrides.push_back("model.head_dim=16");
  return make_plan(small_spec(overrides).spec);
}

/// Bytes from the arena's start, or from where a flat buffer or a window begins.
std::vector<std::size_t> addresses(const Plan& plan, const Launch& launch, TensorId id) {
  const Graph& g = plan.graph;
  const Tensor& t = g.at(id);
  const Region& region = g.regions[launch.region_index];
  const bool flat = t.role == Role::parameter || t.role == Role::copy || t.role == Role::gradient;
  const Placement place = flat ? Placement{} : plan.layout.find(g, launch.region_index, id);
  const std::int64_t chunks = region.loop == Loop::loss_chunks ? g.tokens() / g.chunk_rows : 1;
  std::vector<std::size_t> all;
  for (std::int64_t layer = 0; layer < (region.block == Block::layer ? g.layers_of(region) : 1); ++layer)
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const auto l = static_cast<std::size_t>(layer), begin = static_cast<std::size_t>(chunk * g.chunk_step(region, t));
      if (flat) {
        const std::int64_t offset = plan.parameters.offset.at(t.role == Role::parameter ? id : t.partner);
        all.push_back(static_cast<std::size_t>(bytes_of(t.dtype, offset + layer * plan.parameters.layer_stride)));
      } else {
        all.push_back(place.offset + l * place.layer_stride + begin);
      }
    }
  return all;
}

/// The largest power of two that divides all of them, 256 at most.
std::uint32_t common(const std::vector<std::size_t>& addresses) {
  std::uint32_t alignment = 256;
  while (std::ranges::any_of(addresses, [&](std::size_t address) { return address % alignment != 0; })) alignment /= 2;
  return alignment;
}

/// By the name of the product, then of the operand.
std::map<std::string, std::map<std::string, std::vector<std::size_t>>> addresses_of_calls(const Plan& plan) {
  std::map<std::string, std::map<std::string, std::vector<std::size_t>>> all;
  for (const Launch& launch : plan.launches) {
    if (launch.call != ops::Call::product) continue;
    for (const ops::Argument& argument : launch.arguments) {
      if (argument.tensor == kNone) continue;
      std::vector<std::size_t>& of = all[plan.products[launch.product].name][argument.member];
      const std::vector<std::size_t> more = addresses(plan, launch, argument.tensor);
      of.insert(of.end(), more.begin(), more.end());
    }
  }
  return all;
}

TEST(Alignment, IsThatOfTheAddressesOfAllCalls) {
  for (const char* chunk : {"1", "3", "6", "8", "12", "16", "48"})
    for (const char* hidden : {"36", "64", "120"})
      for (const char* shard : {"none", "gradients", "parameters"})
        for (const char* recompute : {"none", "{every: 2}"}) {
          std::vector<std::string> words = {"parallel.world_size=2"};
          words.push_back(std::string("memory.loss_chunk=") + chunk);
          words.push_back(std::string("model.hidden_size=") + hidden);
          words.push_back(std::string("parallel.shard=") + shard);
          words.push_back(std::string("memory.recompute=") + recompute);
          const Plan plan = cuda_plan(words);
          auto calls = addresses_of_calls(plan);
          EXPECT_GT(plan.products.size(), 10u);
          for (const Product& product : plan.products) {
            auto& operands = calls.at(product.name);
            const GemmShape& s = product.shape;
            SCOPED_TRACE(product.name + " in chunks of " + chunk + ", hidden size " + hidden + ", shard " + shard);
            EXPECT_EQ(s.align_a, common(operands["a"]));
            EXPECT_EQ(s.align_b, common(operands["b"]));
            EXPECT_EQ(s.align_c, common(s.residual ? operands["c"] : operands["d"]));
            EXPECT_EQ(s.align_d, common(operands["d"]));
          }
        }
}

TEST(Alignment, OnlyChunksOfTheLossBeginAtLess) {
  const Plan plan = cuda_plan({"memory.loss_chunk=12"});  // rows of 80 bytes
  for (const Product& product : plan.products) {
    const bool reads = product.name == "lm_head_forward", gradient = product.name == "lm_head_wgrad",
               writes = product.name == "lm_head_dgrad";
    EXPECT_EQ(product.shape.align_a, reads ? 64u : 256u) << product.name;
    EXPECT_EQ(product.shape.align_b, gradient ? 64u : 256u) << product.name;
    EXPECT_EQ(product.shape.align_c, writes ? 64u : 256u) << product.name;
    EXPECT_EQ(product.shape.align_d, writes ? 64u : 256u) << product.name;
  }
}

/// cuBLASLt refuses others. Half of 16,500 rows would be the usual chunk, but is no multiple of 4.
TEST(Alignment, ScalesOfRowsBeginAtMultiplesOf16Bytes) {
  for (const char* sequence : {"24", "8250"}) {
    const Plan plan =
        cuda_plan({"precision.compute=bf16", "precision.matmul=fp8", "precision.fp8.head=forward_dgrad",
                   "model.hidden_size=96", "model.intermediate_size=80", "model.vocab_size=112",
                   "memory.loss_chunk=auto", "memory.budget=2GiB", std::string("batch.sequence_length=") + sequence,
                   "batch.micro_batch=2", fmt::format("batch.tokens={}", 4 * std::stoi(sequence))});
    int of_the_head = 0;
    for (const auto& [name, operands] : addresses_of_calls(plan))
      for (const char* scales : {"scale_a", "scale_b"}) {
        if (!operands.contains(scales)) continue;
        EXPECT_EQ(common(operands.at(scales)) % 16, 0u) << name << ", " << scales << ", sequences of " << sequence;
        of_the_head += name.starts_with("lm_head");
      }
    EXPECT_EQ(of_the_head, 4) << "forward and data gradient";
  }
}

TEST(Alignment, AnotherCallOnlyLowersIt) {
  const Plan plan = cuda_plan({"memory.loss_chunk=12"});
  const auto call_of = [&](const char* name) {
    return *std::ranges::find_if(plan.launches, [&](const Launch& launch) { return launch.what == name; });
  };
  GemmShape shape;
  for (const char* name : {"o_forward", "lm_head_forward", "o_forward", "down_forward"})
    lower_alignment(plan, call_of(name), shape);
  EXPECT_EQ(shape.align_a, 64u);
  EXPECT_EQ(shape.align_b, 256u);
}

}  // namespace
}  // namespace llmc::plan
