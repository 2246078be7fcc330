// Rates by size in a device file, prices computed from them, and a device file made from trainers' measurements.
#include "compiler/tools/calibrate/calibration.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "../facts.h"
#include "compiler/plan/price.h"
#include "error.h"
#include "program/program.h"
#include "small_spec.h"

namespace llmc {
namespace {

using calibration::Figures;
using devices::Device;
using devices::Figure;
using devices::Form;

const Device& cpu() {
  for (const Device& device : devices::all())
    if (device.name == "cpu") return device;
  throw std::logic_error("no cpu");
}

/// Output of a trainer: rates of 1 to 8 GFLOP/s times `scale`, and attention of half a millisecond.
nlohmann::json written(const char* precision, int head_dim, bool whole, double scale = 1) {
  nlohmann::json all = {{"format", kCalibrationFormat}, {"kind", "cpu"},  {"device", "a CPU, 3 threads"},
                        {"date", "2026-11-24"},         {"threads", 3},   {"precision", precision},
                        {"head_dim", head_dim},         {"sequence", 64}, {"spread", 0.1}};
  const nlohmann::json piece = {{"seconds", 5e-4}, {"flops", 1e8 * scale}, {"bytes", 1e6}, {"launches", 1}};
  all["attention_forward"] = all["attention_backward"] = piece;
  if (!whole) return all;
  all["products"]["sizes"] = {64, 256};
  for (const char* form : {"forward", "data_gradient", "weight_gradient"})
    for (int i = 1; i <= 8; ++i) all["products"][form].push_back(i * 1e9 * scale);
  all["copies"] = {
      {{"bytes", 65536}, {"rate", 8e9}}, {{"bytes", 131072}, {"rate", 7e9}}, {{"bytes", 262144}, {"rate", 2e9}}};
  all["launch"] = 1e-4;
  all["kernels"] = {{"seconds", 1.2e-3}, {"flops", 0}, {"bytes", 4e6}, {"launches", 2}};
  all["optimizer"] = {{"seconds", 3e-4}, {"flops", 0}, {"bytes", 1e6}, {"launches", 1}};
  return all;
}

Figures figures(const char* precision, int head_dim, bool whole, double scale = 1) {
  return calibration::read_figures(written(precision, head_dim, whole, scale).dump(), "figures.json");
}

Device measured() {
  return calibration::apply({figures("fp32", 64, true), figures("fp32", 128, false, 3), figures("bf16", 64, true, 2)},
                            cpu());
}

TEST(Calibration, BecomesADevice) {
  const Device device = measured();
  EXPECT_EQ(device[Figure::processors], 3);
  EXPECT_EQ(device[Figure::peak_fp32], 8e9);
  EXPECT_EQ(device[Figure::peak_bf16], 16e9);
  EXPECT_EQ(device[Figure::copy], 2e9);
  EXPECT_EQ(device[Figure::cache], 131072) << "the last at 3/4 of 8 GB/s";
  EXPECT_EQ(device[Figure::cache_copy], 7e9);
  EXPECT_NEAR(device[Figure::kernels_fp32], 4e9, 1) << "4 MB in 1.2 ms less two launches";
  EXPECT_NEAR(device[Figure::kernels_optimizer], 5e9, 1);
  // 1e8 FLOP for the lower half of the square of 64 tokens in 0.4 ms; equally many scores are computed above the
  // diagonal.
  EXPECT_NEAR(device[Figure::attention_forward_64_fp32] / 5e11, 1, 1e-9);
  EXPECT_NEAR(device[Figure::attention_forward_128_fp32] / 15e11, 1, 1e-9);
  EXPECT_NEAR(device[Figure::attention_backward_128] / 10e11, 1, 1e-9);
  EXPECT_NE(device.figures.at(Figure::attention_backward_128).from.find("head_dim 64"), std::string::npos);
  for (const Figure kept : {Figure::memory, Figure::link_inside, Figure::latency_between}) {
    EXPECT_EQ(device[kept], cpu()[kept]);
    EXPECT_EQ(device.figures.at(kept).from, cpu().figures.at(kept).from);
  }
  EXPECT_TRUE(test::has_facts(device.figures.at(Figure::copy).from,
                              {"llmc calibrate", "2026-11-24", "a CPU", "3 threads", "256 KiB"}));
}

TEST(Calibration, OfOnePrecisionSaysSoOfTheOther) {
  const Device device = calibration::apply({figures("fp32", 64, true)}, cpu());
  EXPECT_EQ(device[Figure::product_bf16], device[Figure::product_fp32]);
  EXPECT_TRUE(test::has_facts(device.figures.at(Figure::product_bf16).from, {"not measured", "precision"}));
}

TEST(Calibration, OfFp16IsThatOfBf16) {
  nlohmann::json text = written("bf16", 64, true);
  const std::string bf16 = devices::to_yaml(calibration::apply({calibration::read_figures(text.dump(), "a")}, cpu()));
  text["precision"] = "fp16";
  EXPECT_EQ(devices::to_yaml(calibration::apply({calibration::read_figures(text.dump(), "a")}, cpu())), bf16);
}

/// And so do those of tf32, which no trainer measures.
TEST(Calibration, ProductsOfCodesFollowThoseOfBf16) {
  for (const Device& base : devices::all()) {
    if (base.name != "h100-sxm") continue;
    nlohmann::json text = written("bf16", 64, true);
    text["kind"] = "cuda";
    const Device device = calibration::apply({calibration::read_figures(text.dump(), "figures.json")}, base);
    ASSERT_NE(device[Figure::product_bf16], base[Figure::product_bf16]);
    for (const Figure other : {Figure::product_fp8, Figure::product_tf32}) {
      EXPECT_DOUBLE_EQ(device[other] / device[Figure::product_bf16], base[other] / base[Figure::product_bf16]);
      EXPECT_TRUE(test::has_facts(device.figures.at(other).from, {"not measured", "bf16"}));
    }
    text["product_fp8"] = {{"size", 4096}, {"rate", 1.5e15}};
    const Device known = calibration::apply({calibration::read_figures(text.dump(), "figures.json")}, base);
    EXPECT_EQ(known[Figure::product_fp8], 1.5e15);
    EXPECT_TRUE(test::has_facts(known.figures.at(Figure::product_fp8).from, {"measured by llmc calibrate", "4096"}));
    text["product_fp8"]["rate"] = 0;
    EXPECT_THROW(calibration::read_figures(text.dump(), "figures.json"), Failure);
  }
}

/// Writing and reading a file gives the same file.
TEST(Calibration, FilesAreReadAsTheyAreWritten) {
  const std::string text = devices::to_yaml(measured());
  const Device again = devices::read(text, "mine.yaml");
  EXPECT_EQ(devices::to_yaml(again), text);
  EXPECT_EQ(again.products.of, measured().products.of);
  for (const Device& device : devices::all())
    EXPECT_EQ(devices::to_yaml(devices::read(devices::to_yaml(device), device.name)), devices::to_yaml(device));
}

TEST(Calibration, RefusesWhatIsNoMeasurement) {
  const auto refused = [](const nlohmann::json& text) {
    try {
      calibration::read_figures(text.dump(), "figures.json");
      ADD_FAILURE() << text.dump();
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::usage);
      EXPECT_TRUE(test::has_facts(failure.what(), {"figures.json is not a file of `trainer calibrate -o FILE`: "}));
    }
  };
  EXPECT_THROW(calibration::read_figures("{", "figures.json"), Failure);
  for (const char* member : {"format", "kind", "device", "date", "threads", "precision", "head_dim",
                             "attention_forward", "copies", "launch"}) {
    nlohmann::json text = written("fp32", 64, true);
    text.erase(member);
    refused(text);
  }
  const auto with = [&](const char* pointer, const nlohmann::json& value) {
    nlohmann::json text = written("fp32", 64, true);
    text[nlohmann::json::json_pointer(pointer)] = value;
    refused(text);
  };
  with("/launch", 0);
  with("/launch", -1e-6);
  with("/launch", nullptr);  // JSON for a non-finite number
  with("/products/forward/7", 0);
  with("/products/sizes", {256, 64});
  with("/products/sizes", {64, 128, 256});
  with("/products/sizes", {64, 64.5});
  with("/products/sizes", {64, 10000});
  with("/products/sizes", std::vector<int>(65, 64));
  with("/copies/0/bytes", 1e25);
  with("/attention_forward/seconds", 1e-300);
  with("/attention_forward/flops", 1e308);
  with("/kernels/flops", -1);
  with("/launch", 1e300);
  with("/device", "a \x07");
  for (const char* count : {"/threads", "/head_dim", "/sequence"})
    for (const double number : {0.0, -1.0, 1.5, 1e12, 1e300}) with(count, number);
  with("/precision", "fp8");
  with("/format", "llmc-calibration-0");
  EXPECT_THROW(calibration::apply({figures("fp32", 64, false)}, cpu()), Failure) << "no products";
  nlohmann::json other = written("bf16", 64, true);
  other["device"] = "another CPU, 3 threads";
  const Figures of_another = calibration::read_figures(other.dump(), "other.json");
  EXPECT_THROW(calibration::apply({figures("fp32", 64, true), of_another}, cpu()), Failure);
}

TEST(ProductRates, AreLinesBetweenSizesInTheirLogarithms) {
  const devices::ProductRates& rates = measured().products;
  const auto at = [&](double m, double n, double k) { return rates.at(DType::f32, Form::forward, m, n, k); };
  EXPECT_EQ(at(64, 64, 64), 1e9);
  EXPECT_EQ(at(64, 64, 256), 2e9);
  EXPECT_EQ(at(64, 256, 64), 3e9);
  EXPECT_EQ(at(256, 64, 64), 5e9);
  EXPECT_EQ(at(256, 256, 256), 8e9);
  EXPECT_NEAR(at(128, 64, 64), 3e9, 1) << "half of the way from 64 to 256 by their logarithms";
  EXPECT_NEAR(at(128, 128, 128), 4.5e9, 1);
  EXPECT_EQ(at(8, 8, 8), 1e9) << "below the smallest";
  EXPECT_EQ(at(4096, 4096, 4096), 8e9) << "above the largest";
}

TEST(Price, TakesMeasuredRates) {
  plan::Plan plan = plan::make_plan(small_spec({"precision.compute=fp32"}).spec);
  plan.device = measured();
  const double gap = plan.device[Figure::launch];
  int products = 0, kernels = 0;
  for (const plan::Launch& launch : plan.launches) {
    if (!launch.times) continue;
    const double seconds = plan::price(plan, launch).seconds - gap;
    if (launch.what == "gate_up_forward") {  // 100 wide and 36 deep, 48 rows: nearest to 64 in n only
      const GemmShape& shape = plan.products[launch.product].shape;
      const double rate = plan.device.products.at(DType::f32, Form::forward, static_cast<double>(shape.m),
                                                  static_cast<double>(shape.n), static_cast<double>(shape.k));
      EXPECT_GT(rate, 1e9);
      EXPECT_LT(rate, 3e9);
      EXPECT_GE(seconds, launch.flops / rate * (1 - 1e-9));
      ++products;
    }
    if (launch.what == "swiglu_forward") {
      EXPECT_NEAR(seconds, launch.bytes / 4e9, 1e-12);
      ++kernels;
    }
    if (launch.what.starts_with("adamw")) {
      EXPECT_NEAR(seconds, launch.bytes / 5e9, 1e-12);
      ++kernels;
    }
  }
  EXPECT_EQ(products, 1);
  EXPECT_EQ(kernels, 2);
}

TEST(Devices, SayWhereMeasuredRatesAreWrong) {
  const auto said = [](const std::string& before, const std::string& after) -> std::string {
    std::string text = devices::to_yaml(measured());
    const std::size_t at = text.find(before);
    EXPECT_NE(at, std::string::npos) << before;
    try {
      devices::read(text.replace(at, before.size(), after), "mine.yaml");
    } catch (const Failure& failure) {
      return failure.what();
    }
    return "nothing";
  };
  EXPECT_TRUE(test::has_facts(said("sizes: [64, 256]", "sizes: [256, 64]"), {"sizes", "ascending"}));
  EXPECT_TRUE(test::has_facts(said("sizes: [64, 256]", "sizes: [64]"), {"forward", "1 numbers"}));
  EXPECT_TRUE(test::has_facts(said("    data_gradient:", "    data_gradien:"), {"data_gradien ", "data_gradient?"}));
  EXPECT_TRUE(test::has_facts(said("  sizes:", "  size:"), {"no key size "}));
  EXPECT_TRUE(test::has_facts(said("[1e+09", "[-1e+09"), {"number above 0"}));
}

}  // namespace
}  // namespace llmc
