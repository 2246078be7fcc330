// Compares predicted times with measurements, and device files with the runtime's knowledge of the same devices.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "../facts.h"
#include "../folder.h"
#include "compiler/plan/plan.h"
#include "compiler/plan/price.h"
#include "compiler/spec/load.h"
#include "error.h"
#include "small_spec.h"
#include "spec/gpus.h"
#include "spec/targets.h"
#include "train/usage.h"

namespace llmc::plan {
namespace {

using devices::Figure;
using test::has_facts;

Plan reference(std::vector<std::string> overrides, const std::string& device = "h100-sxm") {
  overrides.insert(overrides.begin(), "target.device=" + device);
  const spec::LoadResult loaded = spec::load(std::string(SPECS_FOLDER) + "/llama-1b.yaml", overrides);
  EXPECT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  return make_plan(loaded.resolved->spec);
}

double seconds(const std::vector<std::string>& overrides) { return reference(overrides).cost.time.seconds; }

/// Seconds of a step if fp8 products have `times` the rate of bf16's.
double seconds_at_fp8_rate(double times, const std::string& matmul) {
  const devices::Device known = devices::named("h100-sxm");
  std::string text = devices::to_yaml(known);
  const std::string line = "  product_fp8: {value: ";
  const std::size_t at = text.find(line) + line.size();
  text.replace(at, text.find(',', at) - at, fmt::format("{:g}", times * known[Figure::product_bf16]));
  const test::Folder folder;
  return reference({"batch.tokens=32768", "precision.matmul=" + matmul}, folder.write("mine.yaml", text))
      .cost.time.seconds;
}

/// Bounds counted from the bytes of the step's kernels before these were written.
TEST(Time, OfFp8WithProductsOf1Point6TimesTheRateOfBf16KeepsItsBounds) {
  EXPECT_LE(seconds_at_fp8_rate(1.6, "fp8"), 0.396);
  EXPECT_LE(seconds_at_fp8_rate(1.6, "fp8_full"), 0.366);
  EXPECT_GT(seconds_at_fp8_rate(1.5, "fp8_full"), seconds_at_fp8_rate(1.6, "fp8_full")) << "of the device's file";
}

/// docs/reference/benchmarks.md, 2026-11-23, one H100: medians of 8 steps. 4 %: two cards of the same kind differed by
/// 1 % there, launches that the model prices alike by 3.
TEST(Time, OfTheReferenceRunIsWhatAnH100Took) {
  const std::string one = "batch.tokens=32768";
  const struct {
    std::vector<std::string> overrides;
    double measured;
  } rows[] = {{{one}, 0.4575},
              {{"batch.tokens=131072"}, 1.7810},
              {{one, "target.attention=cudnn", "deterministic=false"}, 0.4592},
              {{one, "memory.recompute=none"}, 0.4555},
              {{one, "precision.residual=bf16"}, 0.4532}};
  for (const auto& row : rows) {
    const double predicted = seconds(row.overrides);
    EXPECT_NEAR(predicted / row.measured, 1, 0.04) << row.overrides.back();
  }
}

/// The published order for this model (docs/explanation/planning.md): more recomputation takes more time and less
/// memory.
TEST(Time, RecomputationsComeInTheOrderOfTheirPrice) {
  const std::string one = "batch.tokens=32768";
  const Plan none = reference({one, "memory.recompute=none"}), half = reference({one, "memory.recompute={every: 2}"}),
             full = reference({one, "memory.recompute=full"});
  EXPECT_LT(none.cost.time.seconds, half.cost.time.seconds);
  EXPECT_LT(half.cost.time.seconds, full.cost.time.seconds);
  EXPECT_GT(none.layout.bytes, half.layout.bytes);
  EXPECT_GT(half.layout.bytes, full.layout.bytes);
  // Backward kernels recompute norms and SwiGLU from inputs they read anyway.
  EXPECT_NEAR(seconds({one, "memory.recompute=[norms]"}) / none.cost.time.seconds, 1, 0.01);
  EXPECT_NEAR(seconds({one, "memory.recompute=[norms, swiglu]"}) / none.cost.time.seconds, 1, 0.02);
  // A layer's forward pass once more: a third of its GEMMs, attention and bytes; the head has none of it. 17 % were
  // published for another program.
  EXPECT_NEAR(full.cost.time.seconds / none.cost.time.seconds, 1.22, 0.06);
}

TEST(Time, FourSmallPassesBeatOneThatComputesAgain) {
  const double small = seconds({"batch.tokens=131072", "batch.micro_batch=16", "memory.recompute=none"}),
               large = seconds({"batch.tokens=131072", "batch.micro_batch=64", "memory.recompute=full"});
  EXPECT_LT(small, 0.85 * large);
}

/// One rank communicates nothing; eight on one host hide their communication, and over slow links they wait.
TEST(Time, OfRanksHasWhatNothingHides) {
  const auto on = [](int ranks, const char* shard) {
    return reference({"parallel.world_size=" + std::to_string(ranks), std::string("parallel.shard=") + shard,
                      "batch.tokens=2Mi", "batch.micro_batch=16"})
        .cost.time;
  };
  const StepTime one = on(1, "optimizer"), host = on(8, "optimizer"), hosts = on(16, "optimizer");
  EXPECT_EQ(one.exposed_seconds, 0);
  EXPECT_GT(host.exposed_seconds, 0);
  EXPECT_LT(host.exposed_seconds, 0.03 * host.seconds);
  EXPECT_NEAR(8 * host.seconds / one.seconds, 1, 0.03);
  EXPECT_GT(hosts.exposed_seconds / hosts.seconds, host.exposed_seconds / host.seconds);
  EXPECT_GT(on(16, "gradients").exposed_seconds, hosts.exposed_seconds) << "reduced in every pass";
  for (const StepTime& time : {one, host, hosts})
    EXPECT_NEAR(time.compute_seconds + time.exposed_seconds, time.seconds, 1e-9);
}

/// A step on the CPU is the sum of its launches.
TEST(Time, OfOneStreamIsTheSumOfItsPrices) {
  const Plan plan = make_plan(small_spec({"batch.tokens=384", "batch.micro_batch=2"}).spec);
  double sum = 0;
  for (const Launch& launch : plan.launches)
    sum += price(plan, launch).seconds *
           static_cast<double>(launch.times * (launch.per_step ? 1 : plan.rank_micro_batches()));
  EXPECT_NEAR(plan.cost.time.seconds / sum, 1, 1e-9);
}

/// No device file has rates of bf16x3: it counts as three bf16 GEMMs.
TEST(Time, OfBf16x3IsThreeTimesBf16s) {
  Plan plan = make_plan(small_spec({"precision.compute=fp32", "precision.matmul=bf16x3", "target.arch=sapphirerapids",
                                    "model.hidden_size=512", "model.num_attention_heads=8", "model.head_dim=64",
                                    "model.intermediate_size=1024", "batch.sequence_length=512", "batch.tokens=1024"})
                            .spec);
  const auto product = std::ranges::find_if(plan.launches, [](const Launch& l) { return l.op == "gate_up"; });
  ASSERT_NE(product, plan.launches.end());
  const GemmShape& shape = plan.products[product->product].shape;
  ASSERT_TRUE(shape.bf16x3());
  ASSERT_GT(plan.device[Figure::product_bf16], plan.device[Figure::product_fp32]);
  const auto compute = [&] {
    std::string formula;
    price(plan, *product, &formula);
    return formula.substr(0, formula.find('\n'));
  };
  EXPECT_TRUE(has_facts(
      compute(),
      {fmt::format("{:.4g} GFLOP / {:.4g} GFLOP/s", 1e-9 * product->flops,
                   1e-9 * plan.device[Figure::product_bf16] / 3),
       "third of bf16's", fmt::format("{:.4g} ms", 3e3 * product->flops / plan.device[Figure::product_bf16])}));
  // With rates by size, those of bf16 apply too.
  const auto rates = [](double rate) {
    return std::array<std::vector<double>, devices::kForms>{{{rate}, {rate}, {rate}}};
  };
  plan.device.products = {"measured", {512}, {{DType::bf16, rates(6e11)}, {DType::f32, rates(1e11)}}};
  EXPECT_NEAR(price(plan, *product).seconds - plan.device[Figure::launch], product->flops / 2e11, 1e-9);
}

/// Tensor cores multiply tf32 at half of bf16's rate: 494.5 TFLOP/s of an H100's data sheet.
TEST(Time, OfTf32IsThatOfItsOwnProducts) {
  const Plan bf16 = reference({}), fp32 = reference({"precision.compute=fp32"}),
             tf32 = reference({"precision.compute=fp32", "precision.matmul=tf32"});
  const auto compute = [](const Plan& plan) {
    const auto product = std::ranges::find_if(plan.launches, [](const Launch& l) { return l.op == "gate_up"; });
    std::string formula;
    price(plan, *product, &formula);
    return formula.substr(0, formula.find(" = ") + 1);
  };
  EXPECT_TRUE(has_facts(compute(bf16), {"7.75e+05 GFLOP/s"}));
  EXPECT_TRUE(has_facts(compute(fp32), {"5.36e+04 GFLOP/s"}));
  EXPECT_TRUE(has_facts(compute(tf32), {"3.875e+05 GFLOP/s"}));
  EXPECT_EQ(tf32.device.peak(tf32.spec), 494.5e12);
  EXPECT_EQ(fp32.device.peak(fp32.spec), 67e12);
  EXPECT_LT(tf32.cost.time.seconds, fp32.cost.time.seconds / 2);
}

TEST(Time, FormulasSayWhatTheyCompute) {
  const Plan plan = reference({});
  for (const Launch& launch : plan.launches) {
    if (!launch.times) continue;
    std::string formula;
    const Price said = price(plan, launch, &formula), silent = price(plan, launch);
    EXPECT_EQ(said.seconds, silent.seconds);
    EXPECT_FALSE(formula.empty()) << launch.what;
  }
}

TEST(Devices, AreTheGpusThatTrainersKnow) {
  std::size_t named = 0, known = 0;
  for (const spec::Gpu& gpu : spec::gpus()) {
    if (!*gpu.name) continue;
    ++named;
    const devices::Device device = devices::named(gpu.name);
    EXPECT_EQ(device[Figure::memory], static_cast<double>(gpu.budget)) << gpu.name;
    EXPECT_EQ(peak_flops(device.reports, DType::bf16), device[Figure::peak_bf16]) << gpu.name;
    EXPECT_EQ(peak_flops(device.reports, DType::f32), device[Figure::peak_fp32]) << gpu.name;
    EXPECT_EQ(peak_flops(device.reports, DType::f32, true), device[Figure::peak_tf32]) << gpu.name;
  }
  for (const devices::Device& device : devices::all()) known += device.kind == spec::TargetKind::cuda;
  EXPECT_EQ(named, known);
}

TEST(Devices, AFileMayReplaceWhatIsKnownOfItsGpu) {
  std::string text = devices::to_yaml(devices::named("h100-sxm"));
  const std::size_t at = text.find("peak_bf16: {value: ");
  ASSERT_NE(at, std::string::npos);
  text.replace(text.find("9.89e+14", at), 8, "9.0e+14");
  EXPECT_EQ(devices::read(text, "mine")[Figure::peak_bf16], 9e14);
  text.replace(text.find("name: h100-sxm"), 14, "name: my-gpu");
  text.erase(text.find("  peak_fp32:"), text.find('\n', text.find("  peak_fp32:")) + 1 - text.find("  peak_fp32:"));
  EXPECT_THROW(devices::read(text, "mine"), Failure) << "of an unknown GPU every figure is needed";
}

TEST(Devices, AreFoundByNameAndByArch) {
  const auto found = [](std::vector<std::string> overrides) {
    overrides.emplace_back("model.head_dim=16");
    return devices::find(small_spec(overrides).spec).name;
  };
  EXPECT_EQ(found({"target.kind=cuda"}), "h100-sxm");
  EXPECT_EQ(found({"target.kind=cuda", "target.arch=100"}), "b200");
  EXPECT_EQ(found({"target.kind=cuda", "target.arch=80"}), "a100-40gb");
  EXPECT_EQ(found({"target.kind=cuda", "target.device=h100-80gb"}), "h100-sxm");
  for (const char* bad : {"h100", "a100-80gb", "cpu", "/nowhere/gpu.yaml"})
    EXPECT_THROW(found({"target.kind=cuda", std::string("target.device=") + bad}), Failure) << bad;
}

TEST(Devices, SayWhereAFileIsWrong) {
  std::string text;
  for (const auto& [figure, value] : devices::all()[0].figures)
    text += fmt::format("  {}: {{value: {:g}, from: sheet}}\n", devices::name_of(figure), value.value);
  const std::string head = "name: mine\nkind: cuda\narch: 90\nfigures:\n";
  EXPECT_EQ(devices::read(head + text, "mine.yaml").name, "mine");
  const auto said = [&](const std::string& whole) -> std::string {
    try {
      devices::read(whole, "mine.yaml");
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "nothing";
  };
  const auto with = [&](const std::string& before, const std::string& after) {
    std::string whole = head + text;
    const std::size_t place = whole.find(before);
    EXPECT_NE(place, std::string::npos) << before;
    return said(whole.replace(place, before.size(), after));
  };
  EXPECT_TRUE(has_facts(with("arch: 90\n", ""), {"mine.yaml:1: ", "arch is missing", "write arch: ", "90"}));
  for (const char* arch : {"90a", "9.0", "sm_90"})
    EXPECT_TRUE(has_facts(with("arch: 90\n", fmt::format("arch: {}\n", arch)),
                          {"mine.yaml:3: ", fmt::format("not '{}'", arch), "such as 90"}))
        << arch;
  EXPECT_TRUE(has_facts(with("kind: cuda", "kind: tpu"), {"mine.yaml:2: ", "kind", "cuda or cpu"}));
  EXPECT_TRUE(has_facts(with("  copy:", "  copyy:"), {"mine.yaml:15: ", "no key copyy", "mean copy?"}));
  EXPECT_TRUE(has_facts(with("  copy:", "  copy: {value: -1, from: x}\n  cop:"), {"mine.yaml:16: ", "no key cop "}));
  EXPECT_TRUE(has_facts(with("from: sheet", "from_: sheet"), {"no key from_"}));
  EXPECT_TRUE(
      has_facts(with("arch: 90\n", "arch: 90\nper_host: 1.5\n"), {"mine.yaml:4: ", "per_host", "whole number", "8"}));
  EXPECT_TRUE(has_facts(with("arch: 90\n", "arch: 90\nper_host: 1e30\n"), {"mine.yaml:4: ", "per_host", "512"}));
  const std::string memory = fmt::format("memory: {{value: {:g},", devices::all()[0][Figure::memory]);
  for (const char* bytes : {"1e30", "1e19", "4096"})
    EXPECT_TRUE(has_facts(with(memory, fmt::format("memory: {{value: {},", bytes)),
                          {"mine.yaml:5: ", "memory takes 1MiB to 1048576GiB", "80GiB"}))
        << bytes;
  EXPECT_TRUE(has_facts(with("from: sheet", "from: she\xff"), {"mine.yaml:5: ", "'she\\xff'", "UTF-8"}));
  EXPECT_TRUE(has_facts(with("from: sheet", "from: \"she\\e[2J\""), {"mine.yaml:5: ", "'she\\x1b[2J'"}));
  EXPECT_EQ(with("name: mine", "name: My GPU").substr(0, 12), "mine.yaml:1:");
  EXPECT_TRUE(has_facts(said("name: ["), {"mine.yaml:", "not YAML"}));
  EXPECT_TRUE(has_facts(said("- 1"), {"mine.yaml:", "a map"}));
}

}  // namespace
}  // namespace llmc::plan
