// Traces: files, shapes, exact values, tied embeddings, and floats that round-trip.
#include "run/trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "../checkpoint/small_state.h"
#include "checkpoint/safetensors.h"
#include "error.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

FlatSource source_of(SmallState& state, std::size_t buffer) {
  return {[&state, buffer](const ParameterInfo& parameter) { state.access.gather(buffer, parameter); },
          [&state, buffer](std::int64_t offset, std::int64_t count, std::byte* out) {
            state.access.read(buffer, offset, count, out);
          }};
}

TEST(Trace, WritesAStep) {
  test::Folder base;
  const auto parameters = small_parameters();
  SmallState state(3);
  TraceWriter trace(base.path / "t", parameters, 2, 3, 0);
  for (const int step : {0, 1}) {
    trace.begin_step(step, source_of(state, kWeights));
    EXPECT_FALSE(fs::exists(base.path / "t" / ("step-" + std::to_string(step))));
    trace.add_micro_batch(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}, std::vector<std::int32_t>{2, 3, 4, 5, 6, -1});
    trace.add_micro_batch(std::vector<std::int32_t>{7, 8, 9, 1, 1, 1}, std::vector<std::int32_t>{8, 9, 1, 1, 1, step});
    trace.add_gradients(source_of(state, kWeights + 1));
    trace.finish_step({.loss = 2.5, .grad_norm = 0.1f}, {}, 3e-4f);
  }
  EXPECT_TRUE(hidden_entries(base.path / "t").empty());

  const fs::path step = base.path / "t" / "step-0";
  const safetensors::Reader tokens(step / "tokens.safetensors");
  const safetensors::Entry* targets = tokens.find("targets");
  ASSERT_NE(targets, nullptr);
  EXPECT_EQ(targets->shape, (std::vector<std::int64_t>{2, 2, 3}));
  EXPECT_EQ(targets->dtype, safetensors::Dtype::kI32);
  std::vector<std::int32_t> values(12);
  tokens.read(*targets, 0, values.data(), 48);
  EXPECT_EQ(values, (std::vector<std::int32_t>{2, 3, 4, 5, 6, -1, 8, 9, 1, 1, 1, 0}));
  tokens.read(*tokens.find("inputs"), 0, values.data(), 48);
  EXPECT_EQ(values, (std::vector<std::int32_t>{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 1, 1}));

  for (const auto& [file, kind] : {std::pair{"weights.safetensors", 0}, std::pair{"gradients.safetensors", 1}}) {
    const safetensors::Reader tensors(step / file);
    EXPECT_EQ(tensors.entries().size(), 7u) << "the tied lm_head is not there";
    for (const ParameterInfo& p : stored_parameters(parameters)) {
      const safetensors::Entry* entry = tensors.find(p.name);
      ASSERT_NE(entry, nullptr) << p.name;
      std::vector<float> dense(static_cast<std::size_t>(p.rows * p.cols));
      tensors.read(*entry, 0, dense.data(), dense.size() * sizeof(float));
      for (std::int64_t r = 0; r < p.rows; ++r)
        for (std::int64_t c = 0; c < p.cols; ++c)
          EXPECT_EQ(dense[r * p.cols + c], state.buffers[kind][p.offset + r * p.pitch + c]) << p.name;
    }
  }
}

TEST(Trace, AStepThatIsRepeatedReplacesItsFolder) {
  test::Folder base;
  const auto parameters = small_parameters();
  SmallState state(3);
  TraceWriter trace(base.path, parameters, 2, 3, 0);
  for (const double loss : {2.5, 1.5}) {  // the second after a rollback
    trace.begin_step(0, source_of(state, kWeights));
    trace.add_micro_batch(std::vector<std::int32_t>(6), std::vector<std::int32_t>(6));
    trace.add_gradients(source_of(state, kWeights + 1));
    trace.finish_step({.loss = loss}, {}, 3e-4f);
  }
  EXPECT_EQ(nlohmann::json::parse(read_all(base.path / "step-0" / "summary.json")).at("loss"), 1.5);
}

TEST(Trace, RefusesAnOlderTrace) {
  test::Folder base;
  const auto parameters = small_parameters();
  fs::create_directory(base.path / "step-0");
  SmallState state(3);
  TraceWriter trace(base.path, parameters, 2, 3, 0);
  EXPECT_THROW(trace.begin_step(0, source_of(state, kWeights)), Failure);
}

TEST(Trace, AResumedStartReplacesTheTraceOfItsStepsAlone) {
  test::Folder base;
  for (const char* step : {"step-3", "step-4"}) fs::create_directory(base.path / step);
  std::ofstream(base.path / "step-3/summary.json") << "{}\n";
  EXPECT_NO_THROW(check_trace(base.path, 0, 3));
  EXPECT_NO_THROW(check_trace(base.path, 3, 4));
  EXPECT_NO_THROW(check_trace(base.path, 5, 9));
  EXPECT_NO_THROW(check_trace(base.path / "none", 0, 9));
  EXPECT_THROW(check_trace(base.path, 0, 4), Failure) << "of another run";
  EXPECT_THROW(check_trace(base.path, 3, 5), Failure) << "no trace";
  const auto parameters = small_parameters();
  SmallState state(3);
  TraceWriter trace(base.path, parameters, 2, 3, 3);
  EXPECT_THROW(trace.begin_step(4, source_of(state, kWeights)), Failure);
  EXPECT_NO_THROW(trace.begin_step(3, source_of(state, kWeights)));
}

TEST(Trace, SummaryReadsBackExactly) {
  const float values[] = {0.1f, 1e-45f, 3.4028235e38f, 1.0f / 3, 0, -0.0f};
  for (const float value : values) {
    const char* const names[] = {"z_loss"};
    const double reports[] = {std::nextafter(static_cast<double>(value), 3.0)};
    const StepResults summary{.loss = std::nextafter(static_cast<double>(value), 1.0),
                              .top1 = std::nextafter(static_cast<double>(value), 2.0),
                              .lse = 2.0 * static_cast<double>(value),
                              .entropy = 0.5 * static_cast<double>(value),
                              .lse_max = -static_cast<double>(value),
                              .grad_norm = value};
    const auto parsed = nlohmann::json::parse(format_summary(summary, figures_of(summary, names, reports), value));
    EXPECT_EQ(parsed.at("loss").get<double>(), summary.loss);
    EXPECT_EQ(parsed.at("grad_norm").get<float>(), value);
    EXPECT_EQ(parsed.at("lr").get<float>(), value);
    EXPECT_EQ(parsed.at("top1").get<double>(), summary.top1);
    EXPECT_EQ(parsed.at("lse_mean").get<double>(), summary.lse);
    EXPECT_EQ(parsed.at("lse_max").get<double>(), summary.lse_max);
    EXPECT_EQ(parsed.at("entropy").get<double>(), summary.entropy);
    EXPECT_EQ(parsed.at("z_loss").get<double>(), reports[0]);
  }
  EXPECT_EQ(format_summary({.loss = std::nan(""), .grad_norm = std::numeric_limits<float>::infinity()}, {}, 0),
            "{\"loss\":null,\"grad_norm\":null,\"lr\":0.0}\n");
}

}  // namespace
}  // namespace llmc
