// The mean of several checkpoints: its arithmetic, its files, and the checkpoints that have none.
#include "compiler/tools/checkpoints/average.h"

#include <gtest/gtest.h>

#include <limits>

#include "../facts.h"
#include "checkpoint/safetensors.h"
#include "compiler/tools/checkpoints/export.h"
#include "small_run.h"

namespace llmc::checkpoints {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNorm = "model.norm.weight";

class Average : public testing::Test {
 protected:
  fs::path out() const { return folder_.path / "out"; }
  /// Saves a checkpoint whose weights are a third, a half, ... of the first one's.
  fs::path save(std::int64_t step) {
    SmallModel model;
    for (float& weight : model.weights()) weight /= static_cast<float>(step);
    return model.save(run_.path, step);
  }
  Exported average(std::vector<fs::path> paths, DType dtype = DType::f32) const {
    const fs::path first = paths.front();
    paths.erase(paths.begin());
    return export_model(
        {.checkpoint = first, .out = out(), .averaged = std::move(paths), .tokenizer = {}, .dtype = dtype});
  }
  std::string refusal(const std::vector<fs::path>& paths) const {
    try {
      average(paths);
      return "";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::checkpoint) << failure.what();
      EXPECT_TRUE(fs::is_empty(folder_.path)) << "nothing is left";
      return failure.what();
    }
  }
  std::vector<float> tensor(const std::string& name) const {
    const safetensors::Reader reader(out() / "model.safetensors");
    const safetensors::Entry* entry = reader.find(name);
    std::vector<float> values(entry->bytes() / sizeof(float));
    reader.read(*entry, 0, values.data(), entry->bytes());
    return values;
  }

  test::Folder run_, folder_;
};

TEST_F(Average, EveryWeightIsTheMeanRoundedOnce) {
  const Exported exported = average({save(1), save(2), save(3)});
  SmallModel model;
  std::int64_t parameters = 0;
  for (const ParameterInfo& p : model.parameters()) {
    const std::vector<float> values = tensor(p.name);
    parameters += static_cast<std::int64_t>(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float first = model.at(0, p, static_cast<std::int64_t>(i));
      const double sum = static_cast<double>(first) + static_cast<double>(first / 2) + static_cast<double>(first / 3);
      ASSERT_EQ(values[i], static_cast<float>(sum / 3)) << p.name << " " << i;
    }
  }
  EXPECT_EQ(exported.parameters, parameters);
  EXPECT_EQ(exported.bytes, 4 * parameters);
  const std::string card = read_all(out() / "README.md");
  EXPECT_TRUE(
      test::has_facts(card, {"mean of 3 checkpoints", "| weights | fp32 |", "| steps | 1, 2, 3 |", "vocab_size: 61"}));
  EXPECT_EQ(card.find("validation loss"), std::string::npos);
  EXPECT_TRUE(fs::exists(out() / "config.json"));
}

TEST_F(Average, SumsLoseNoSmallTermAndKeepTheSignOfZero) {
  SmallModel large, small, negative;
  large.weight(kNorm, 0) = 0x1p24f;  // 1 is below half of its last bit, and 2^24 + 1 + 1 is not
  small.weight(kNorm, 0) = negative.weight(kNorm, 0) = 1;
  for (SmallModel* model : {&large, &small, &negative}) {
    model->weight(kNorm, 1) = -0.0f;
    model->weight(kNorm, 2) = std::numeric_limits<float>::max();
  }
  average({large.save(run_.path, 1), small.save(run_.path, 2), negative.save(run_.path, 3)});
  const std::vector<float> values = tensor(kNorm);
  EXPECT_EQ(values[0], static_cast<float>((0x1p24 + 2) / 3));
  EXPECT_NE(values[0], static_cast<float>(0x1p24 / 3));
  EXPECT_TRUE(values[1] == 0 && std::signbit(values[1]));
  EXPECT_EQ(values[2], std::numeric_limits<float>::max());
}

TEST_F(Average, Bf16IsRoundedFromTheMean) {
  SmallModel one, two;
  one.weight(kNorm, 0) = 1;
  two.weight(kNorm, 0) = 1 + 0x1p-7f;  // the mean is a tie, and 1 is even
  EXPECT_EQ(average({one.save(run_.path, 1), two.save(run_.path, 2)}, DType::bf16).dtype, DType::bf16);
  const safetensors::Reader reader(out() / "model.safetensors");
  std::uint16_t bits = 0;
  reader.read(*reader.find(kNorm), 0, &bits, sizeof bits);
  EXPECT_EQ(bits, 0x3f80);
  EXPECT_TRUE(test::has_facts(read_all(out() / "README.md"), {"bf16, rounded to nearest"}));
}

TEST_F(Average, OtherModelsAreNamed) {
  SmallModel other({"model.intermediate_size=52", "model.rope_theta=20000"});
  const fs::path first = save(1), second = other.save(run_.path, 2);
  EXPECT_TRUE(test::has_facts(refusal({first, second}),
                              {"'" + second.string() + "'", "'" + first.string() + "'", "model.intermediate_size",
                               "-> 52", "model.rope_theta", "-> 20000", "Average checkpoints of one model"}));
}

TEST_F(Average, OtherTokenizersAreNamed) {
  const fs::path first = save(1), second = save(2), third = save(3);
  std::vector<Contents> checkpoints;
  for (const fs::path& path : {first, second, third}) checkpoints.push_back(open(path));
  for (Contents& contents : checkpoints) contents.state.tokenizer.clear();
  checkpoints[1].state.tokenizer = "00000000000000aa";
  EXPECT_NO_THROW(check_averaged(checkpoints)) << "two of them record none";
  checkpoints[2].state.tokenizer = "00000000000000bb";
  try {
    check_averaged(checkpoints);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_TRUE(test::has_facts(failure.what(), {third.string(), "another tokenizer", second.string(),
                                                 "00000000000000bb", "not 00000000000000aa"}));
  }
}

TEST_F(Average, DamagedCheckpointsAreNamed) {
  const fs::path first = save(1), second = save(2), file = second / "model.safetensors";
  std::string content = read_all(file);
  content.back() = static_cast<char>(content.back() ^ 1);
  write_all(file, content);
  EXPECT_TRUE(test::has_facts(refusal({first, second}), {second.string(), "is damaged: model.safetensors"}));
}

TEST_F(Average, NumbersThatAreNotFiniteAreNamed) {
  const fs::path first = save(1), second = save(2), file = second / "model.safetensors";
  const std::string name = safetensors::Reader(file).entries().back().name;
  std::string content = read_all(file);
  const float bad = std::numeric_limits<float>::infinity();
  content.replace(content.size() - sizeof bad, sizeof bad, reinterpret_cast<const char*>(&bad), sizeof bad);
  write_all(file, content);
  const Contents contents[] = {open(first), open(second)};
  std::vector<CheckpointTensor> tensors;
  for (const Contents& of : contents)
    for (const CheckpointTensor& tensor : weights_of(of))
      if (tensor.name() == name) tensors.push_back(tensor);
  ASSERT_EQ(tensors.size(), 2u);
  try {
    for_each_mean(tensors, [](std::span<const float>) {});
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_TRUE(test::has_facts(failure.what(), {file.string(), "'" + name + "'", "not finite"}));
  }
}

}  // namespace
}  // namespace llmc::checkpoints
