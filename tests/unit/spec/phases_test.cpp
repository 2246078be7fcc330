// Borders of phases whose batches share out a budget of tokens.
#include "compiler/spec/phases.h"

#include <algorithm>

#include "good_spec.h"
#include "spec/length/token_budget.h"

namespace llmc::spec {
namespace {

// Batches of 8,192 tokens for a quarter of a million tokens, then of twice as many for the rest.
constexpr const char* kRamp = R"(schedule: {tokens: 1000000}
phases:
  - {until: 25%}
  - {until: 100%, batch: {tokens: 16384}}
)";

LoadResult ramp(const std::string& text, const std::vector<std::string>& overrides = {}) {
  return load_text(std::string(kGood) + text, "ramp.yaml", overrides);
}

std::vector<std::int64_t> ends(const LoadResult& result) {
  EXPECT_TRUE(result.diagnostics.empty()) << render(result.diagnostics);
  std::vector<std::int64_t> steps;
  for (const Resolved& phase : result.phases) {
    steps.push_back(phase.spec.phase.last);
    EXPECT_EQ(phase.spec.schedule.steps, result.phases.front().spec.schedule.steps);
  }
  return steps;
}

using Steps = std::vector<std::int64_t>;

TEST(Phases, SharesOfABudgetAreSharesOfTheTokens) {
  const LoadResult result = ramp(kRamp);
  // 250,000 / 8,192 = 30.5, and 31 steps are 253,952 tokens; 746,048 / 16,384 = 45.5, of which 46 contain the rest.
  EXPECT_EQ(ends(result), (Steps{31, 77}));
  EXPECT_FALSE(result.phases[0].spec.schedule.tokens.given());
  EXPECT_NE(std::ranges::find(result.notes, "schedule.tokens 1000000 are 77 steps of the phases' batches"),
            result.notes.end());
  EXPECT_EQ(ends(ramp(kRamp, {"batch.tokens=8192"})), (Steps{31, 123}));  // the word is that of all phases
  EXPECT_EQ(ends(ramp(kRamp, {"schedule.tokens=500000"})), (Steps{15, 39}));
  EXPECT_EQ(ends(ramp(kRamp, {"schedule={tokens: 500000}"})), (Steps{15, 39}));
  EXPECT_EQ(ends(ramp(kRamp, {"schedule.steps=40"})), (Steps{10, 40}));
  // Longer than all steps of the larger batches, and shorter than the run.
  EXPECT_EQ(ends(ramp(kRamp, {"schedule.warmup_steps=70"})), (Steps{31, 77}));
  EXPECT_EQ(codes_of(ramp(kRamp, {"schedule.warmup_steps=78"})), "E0308");
  EXPECT_EQ(codes_of(ramp("schedule: {tokens: 1000000, steps: 77}\n"
                          "phases: [{until: 25%}, {until: 100%, batch: {tokens: 16384}}]\n")),
            "E0349");
  EXPECT_EQ(codes_of(ramp(kRamp, {"model.hidden_size=-1"})), "E0205");
  for (const Resolved& phase : result.phases) EXPECT_EQ(tokens_of_run(phase.spec), 31.0 * 8192 + 46.0 * 16384);
  const LoadResult times = ramp(kRamp, {"schedule.tokens=20x"});
  double tokens = 0;
  for (const Resolved& phase : times.phases)
    tokens += static_cast<double>(phase.spec.own_steps() * phase.spec.batch.tokens);
  const double budget = 20 * static_cast<double>(parameter_count(times.phases.front().spec.model));
  EXPECT_GE(tokens, budget);
  EXPECT_LT(tokens, budget + 16384);
}

TEST(Phases, StepsMayEndAPhaseOfABudget) {
  EXPECT_EQ(ends(ramp("schedule: {tokens: 1000000}\n"
                      "phases: [{until: 100}, {until: 100%, batch: {tokens: 16384}}]\n")),
            (Steps{100, 112}));
  EXPECT_EQ(ends(ramp("schedule: {tokens: 1000000}\n"
                      "phases: [{until: 100}, {until: 112, batch: {tokens: 16384}}]\n")),
            (Steps{100, 112}));
}

TEST(Phases, BordersOfABudgetThatAreRefused) {
  const auto refused = [](const std::string& first, const std::string& last, const std::string& message) {
    const LoadResult result = ramp("schedule: {tokens: 1000000}\nphases: [{until: " + first + "}, {until: " + last +
                                   ", batch: {tokens: 16384}}]\n");
    EXPECT_TRUE(result.phases.empty());
    EXPECT_EQ(codes_of(result), "E0351") << render(result.diagnostics);
    EXPECT_NE(render(result.diagnostics).find(message), std::string::npos) << render(result.diagnostics);
  };
  refused("123", "100%", "1007616 tokens are trained on up to until 123, and schedule.tokens are 1000000");
  refused("25%", "90%", "the last phase ends after 909312 of 1000000 tokens");
  refused("25%", "78", "1024000 tokens are trained on up to until 78");
  refused("25%", "76", "the last phase ends after 991232 of 1000000 tokens");
  refused("25%", "25%", "until 25% is not after step 31");
  refused("0.1%", "100%", "until 0.1% is not after step 0");
  refused("some", "100%", "neither a share of the tokens nor a step");
}

}  // namespace
}  // namespace llmc::spec
