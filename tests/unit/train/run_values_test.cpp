#include "train/run_values.h"

#include <gtest/gtest.h>

#include "error.h"
#include "fake_program.h"
#include "train/value_text.h"

namespace llmc {
namespace {

RunValues resolve(const std::vector<std::string>& overrides) {
  return resolve_run_values(fake::keys_json().c_str(), overrides, "/spec/folder", fake::kLength, fake::kMicroBatch);
}

/// The message of the failure, "" if there was none; its code must be `code`.
std::string failure(const std::vector<std::string>& overrides, Exit code = Exit::usage) {
  try {
    resolve(overrides);
  } catch (const Failure& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no failure";
  return {};
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

TEST(ValueText, Integers) {
  EXPECT_EQ(parse_integer("0"), 0);
  EXPECT_EQ(parse_integer("-12"), -12);
  EXPECT_EQ(parse_integer("1_000_000"), 1000000);
  EXPECT_EQ(parse_integer("3K"), 3000);
  EXPECT_EQ(parse_integer("2Gi"), std::int64_t{2} << 30);
  EXPECT_EQ(parse_integer("80GiB", true), std::int64_t{80} << 30);
  EXPECT_EQ(parse_integer("9223372036854775807"), INT64_MAX);
  for (const char* bad : {"", "-", "+1", "010", "1.0", "1e3", "1__0", "_1", "1_", "1k", "1KB", "Ki", "1 ", " 1", "0x10",
                          "1KiX", "9223372036854775808", "9007199254740993Gi"})
    EXPECT_FALSE(parse_integer(bad)) << bad;
}

TEST(ValueText, Numbers) {
  EXPECT_EQ(parse_number("3.0e-4"), 3e-4);
  EXPECT_EQ(parse_number("-1"), -1.0);
  EXPECT_EQ(parse_number("1_000.5E+2"), 100050.0);
  for (const char* bad : {"", ".5", "1.", "01", "1e", "1e+", "nan", "inf", "1e999", "0x1p3", "1,5", "+1"})
    EXPECT_FALSE(parse_number(bad)) << bad;
}

TEST(ValueText, Lists) {
  using Words = std::vector<std::string>;
  EXPECT_EQ(parse_list("[]"), Words{});
  EXPECT_EQ(parse_list("[0.9, 0.95]"), (Words{"0.9", "0.95"}));
  EXPECT_EQ(parse_list(R"([ "a, b" , "c\"\n", d e ])"), (Words{"a, b", "c\"\n", "d e"}));
  for (const char* bad : {"", "a", "[a", "[a,]", "[,a]", "[\"a]", "[\"a\" b]", "[[a]]", "[a]]"})
    EXPECT_FALSE(parse_list(bad)) << bad;
}

TEST(ValueText, NearestWord) {
  EXPECT_EQ(nearest_word("optimizer.lt", {"optimizer.lr", "optimizer.eps"}), "optimizer.lr");
  EXPECT_FALSE(nearest_word("xyz", {"optimizer.lr", "seed"}));
}

TEST(RunValues, DefaultsAndPathsOfTheSpec) {
  const RunValues values = resolve({});
  EXPECT_EQ(values.optimizer.lr, 0.05);
  EXPECT_EQ(values.optimizer.beta2, 0.95);
  EXPECT_EQ(values.schedule.kind, ScheduleKind::cosine);
  EXPECT_EQ(values.data.train_path, "/spec/folder/train-*.bin");
  EXPECT_EQ(values.data.tokenizer, "");
  EXPECT_EQ(values.sampling.prompts.size(), 3u);
  EXPECT_TRUE(values.metrics.per_parameter);
  EXPECT_EQ(values.seed, 42u);
}

TEST(RunValues, Overrides) {
  const RunValues values = resolve({"optimizer.lr=1e-3", "optimizer.betas=[0.5, 0.75]", "schedule.kind=wsd",
                                    "schedule.steps=1Ki", "batch.tokens=1_600", "sampling.prompts=[\"7 8\"]",
                                    "data.validation.path=", "data.train.path=x/*.bin", "seed=5"});
  EXPECT_EQ(values.optimizer.lr, 1e-3);
  EXPECT_EQ(values.optimizer.beta1, 0.5);
  EXPECT_EQ(values.schedule.kind, ScheduleKind::wsd);
  EXPECT_EQ(values.schedule.steps, 1024);
  EXPECT_EQ(values.batch_tokens, 1600);
  EXPECT_EQ(values.sampling.prompts, std::vector<std::string>{"7 8"});
  EXPECT_EQ(values.data.validation_path, "");
  EXPECT_EQ(values.data.train_path, (std::filesystem::current_path() / "x/*.bin").string());
  EXPECT_EQ(values.seed, 5u);
}

TEST(RunValues, BoundsAndTypes) {
  for (const char* bad : {"optimizer.lr=-1", "optimizer.lr=fast", "optimizer.betas=[0.9]", "optimizer.betas=[0.9, 1]",
                          "optimizer.betas=0.9", "optimizer.eps=0", "schedule.kind=step", "schedule.steps=1e3",
                          "schedule.steps=", "seed=-1", "sampling.prompts=hello"})
    EXPECT_TRUE(contains(failure({bad}), "write ")) << bad;
  EXPECT_TRUE(contains(failure({"optimizer.betas=[0.9, 1]"}), "at least 0.0, below 1.0"));
}

TEST(RunValues, UnknownAndMalformed) {
  EXPECT_TRUE(contains(failure({"optimiser.lr=1"}), "did you mean optimizer.lr?"));
  EXPECT_TRUE(contains(failure({"zzz=1"}), "--help"));
  EXPECT_TRUE(contains(failure({"optimizer.lr"}), "write key.path=value"));
  EXPECT_TRUE(contains(failure({"=1"}), "write key.path=value"));
  EXPECT_TRUE(contains(failure({"seed=1", "seed=2"}), "twice"));
}

TEST(RunValues, CompiledInKeys) {
  const std::string message = failure({"model.vocab_size=16"});
  EXPECT_TRUE(contains(message, "model.vocab_size=12") && contains(message, "16") && contains(message, "llmc compile"))
      << message;
  failure({"precision.compute=bf16"});
  failure({"batch.micro_batch=auto"});
  failure({"metrics.per_parameter=false"});
  // Saying what is compiled in is no contradiction.
  resolve({"model.vocab_size=12", "precision.compute=fp32", "memory.budget=1GiB", "metrics.per_parameter=true",
           "name=fake"});
}

TEST(RunValues, Relations) {
  EXPECT_TRUE(contains(failure({"batch.tokens=20"}, Exit::spec), "batch.tokens=16"));
  EXPECT_TRUE(contains(failure({"batch.tokens=4"}, Exit::spec), "batch.tokens=8"));
  EXPECT_TRUE(contains(failure({"schedule.steps=2"}, Exit::spec), "warmup_steps 2 leaves nothing"));
  failure({"schedule.kind=wsd", "schedule.decay_fraction=0.95"}, Exit::spec);
  failure({"checkpoint.keep_every=7"}, Exit::spec);
  failure({"checkpoint.every=0", "checkpoint.keep_every=7"}, Exit::spec);
}

TEST(RunValues, ListOfKeysHasRunTimeOnesOnly) {
  const std::string list = list_run_time_keys(fake::keys_json().c_str());
  EXPECT_TRUE(contains(list, "  optimizer.lr=0.05\n"));
  EXPECT_FALSE(contains(list, "model.vocab_size"));
}

}  // namespace
}  // namespace llmc
