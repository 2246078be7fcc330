// A checkpoint whose moments have another format than the run that loads it.
#include <gtest/gtest.h>

#include <cmath>

#include "../facts.h"
#include "checkpoint/manifest.h"
#include "device/dynamic_map.h"
#include "small_state.h"

namespace llmc {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kAll = 8192, kMatrix = 4608, kVector = 70;
constexpr GroupSet kInt8 = 0b01, kFp32 = 0b10;

/// A matrix whose last block has 100 elements less than 256, and a vector.
std::vector<ParameterInfo> parameters() {
  return {{"model.layers.0.mlp.down_proj.weight", 256, 12, 384, 384, true, 0, 0.02f, 0, 1},
          {"model.norm.weight", 6144, 1, kVector, kVector, false, 1, 0, 1, 2}};
}

/// The state of a run in host memory.
struct Kept {
  std::vector<SavedBuffer> buffers;
  std::vector<std::vector<std::byte>> memory;
  std::vector<std::byte*> begins;
  HostState access;

  explicit Kept(std::vector<SavedBuffer> list)
      : buffers(std::move(list)), memory(buffers.size(), std::vector<std::byte>(4 * kAll)), access({}, {}, 0) {
    for (auto& bytes : memory) begins.push_back(bytes.data());
    access = HostState(buffers, begins, kAll);
  }
  template <class T>
  T* at(std::size_t buffer) {
    return reinterpret_cast<T*>(memory[buffer].data());
  }
};

Kept in_fp32() {
  Kept run(HostState::adamw_buffers());
  for (std::int64_t i = 0; i < kMatrix; ++i) {
    run.at<float>(1)[256 + i] = std::sin(static_cast<float>(i)) * std::pow(10.0f, static_cast<float>(i % 5 - 4));
    run.at<float>(2)[256 + i] = std::pow(run.at<float>(1)[256 + i], 2.0f);
  }
  run.at<float>(2)[256] = 0;
  for (std::int64_t i = 0; i < kVector; ++i) run.at<float>(1)[6144 + i] = run.at<float>(2)[6144 + i] = 0.5f;
  return run;
}

Kept in_int8() {
  return Kept({{},
               {"exp_avg.", DType::dynamic8, 1, kInt8},
               {"exp_avg_scale.", DType::f32, kStateBlock, kInt8},
               {"exp_avg_sq.", DType::udynamic8, 1, kInt8},
               {"exp_avg_sq_scale.", DType::f32, kStateBlock, kInt8},
               {"exp_avg.", DType::f32, 1, kFp32},
               {"exp_avg_sq.", DType::f32, 1, kFp32}});
}

std::string load(const fs::path& saved, Kept& run) {
  std::string said;
  load_checkpoint(saved, parameters(), run.access, Trust::unverified, [&](const std::string& text) { said += text; });
  return said;
}

TEST(StateFormats, Fp32BecomesTheNearestCodes) {
  test::Folder folder;
  Kept wide = in_fp32(), narrow = in_int8();
  const fs::path saved = save_checkpoint(folder.path, small_train_state(3), kTexts, parameters(), wide.access);
  EXPECT_TRUE(test::has_facts(load(saved, narrow), {"2 tensors", "fp32", "int8"}));
  for (std::int64_t begin = 256; begin < 256 + kMatrix; begin += kStateBlock) {
    const std::int64_t end = std::min(begin + kStateBlock, 256 + kMatrix);
    float m = 0, v = 0;
    for (std::int64_t i = begin; i < end; ++i)
      m = std::max(m, std::abs(wide.at<float>(1)[i])), v = std::max(v, wide.at<float>(2)[i]);
    ASSERT_EQ(narrow.at<float>(2)[begin / kStateBlock], m);
    ASSERT_EQ(narrow.at<float>(4)[begin / kStateBlock], v);
    for (std::int64_t i = begin; i < end; ++i) {
      ASSERT_EQ(narrow.at<dynamic8>(1)[i].bits,
                from_float<dynamic8>(BlockScale(m).signed_part(wide.at<float>(1)[i])).bits);
      ASSERT_EQ(narrow.at<udynamic8>(3)[i].bits,
                from_float<udynamic8>(BlockScale(v).unsigned_part(wide.at<float>(2)[i])).bits);
    }
  }
  EXPECT_EQ(narrow.at<float>(5)[6144 + kVector - 1], 0.5f);
  EXPECT_EQ(narrow.at<float>(6)[6144 + kVector - 1], 0.5f);
}

TEST(StateFormats, CodesBecomeTheirNumbersAndStayWhereTheyAre) {
  test::Folder first, second, third;
  Kept wide = in_fp32(), narrow = in_int8(), again = in_int8(), back = in_fp32();
  load(save_checkpoint(first.path, small_train_state(3), kTexts, parameters(), wide.access), narrow);
  const fs::path saved = save_checkpoint(second.path, small_train_state(4), kTexts, parameters(), narrow.access);
  EXPECT_EQ(load(saved, again), "") << "nothing to convert";
  EXPECT_TRUE(again.memory == narrow.memory);
  EXPECT_TRUE(test::has_facts(load(saved, back), {"2 tensors", "int8", "fp32"}));
  for (std::int64_t i = 256; i < 256 + kMatrix; ++i) {
    ASSERT_EQ(back.at<float>(1)[i], to_float(narrow.at<dynamic8>(1)[i]) * narrow.at<float>(2)[i / kStateBlock]);
    ASSERT_EQ(back.at<float>(2)[i], to_float(narrow.at<udynamic8>(3)[i]) * narrow.at<float>(4)[i / kStateBlock]);
    ASSERT_EQ(back.at<float>(2)[i] == 0, wide.at<float>(2)[i] == 0);
  }
  // Numbers that codes stand for get the same codes.
  load(save_checkpoint(third.path, small_train_state(5), kTexts, parameters(), back.access), again);
  EXPECT_TRUE(again.memory == narrow.memory);
}

TEST(StateFormats, CodesWithoutTheirScalesAreRefused) {
  test::Folder folder;
  Kept wide = in_fp32();
  // A run that keeps codes alone: no llmc writes such a file.
  Kept codes(
      {{}, {"exp_avg.", DType::dynamic8, 1, kInt8}, {"exp_avg.", DType::f32, 1, kFp32}, {.prefix = "exp_avg_sq."}});
  const fs::path saved = save_checkpoint(folder.path, small_train_state(3), kTexts, parameters(), codes.access);
  try {
    load(saved, wide);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::checkpoint);
    EXPECT_TRUE(
        test::has_facts(failure.what(), {"optimizer.safetensors", "exp_avg.model.layers.0.mlp.down_proj", "scales"}));
  }
  EXPECT_TRUE(wide.memory == in_fp32().memory) << "nothing may be written before everything has been checked";
}

/// A run that keeps a momentum of all parameters, and an element a row of those of some groups.
Kept with_rows(GroupSet groups) {
  std::vector<SavedBuffer> buffers = {{}, {.prefix = "momentum."}};
  if (groups) buffers.push_back({.prefix = "neuron_avg_sq.", .groups = groups, .of_rows = true});
  return Kept(buffers);
}

TEST(StateFormats, StateOfRowsBeginsAtZeroOrIsLeftOut) {
  test::Folder first, second;
  constexpr GroupSet kMatrices = 0b01;
  Kept saved = with_rows(kMatrices), plain = with_rows(0);
  for (int row = 0; row < 12; ++row) saved.at<float>(2)[row] = static_cast<float>(row) + 0.5f;
  const fs::path rows = save_checkpoint(first.path, small_train_state(3), kTexts, parameters(), saved.access),
                 none = save_checkpoint(second.path, small_train_state(4), kTexts, parameters(), plain.access);
  Kept same = with_rows(kMatrices);
  EXPECT_EQ(load(rows, same), "");
  EXPECT_TRUE(same.memory == saved.memory);
  EXPECT_TRUE(test::has_facts(load(none, same), {"neuron_avg_sq begins at 0"}));
  EXPECT_TRUE(same.memory == with_rows(kMatrices).memory) << "also over what a rollback has left";
  EXPECT_TRUE(test::has_facts(load(rows, plain), {"neuron_avg_sq of the checkpoint is left out"}));
  // A file that lacks some of them is damaged, not of another format.
  Kept more = with_rows(kAllGroups);
  more.at<float>(2)[0] = 1;
  const Kept before = more;
  EXPECT_THROW(load(rows, more), Failure);
  EXPECT_TRUE(more.memory == before.memory);
}

/// A checkpoint of somebody else may have any names, such as a prefix alone.
TEST(StateFormats, ATensorNamedAsAPrefixIsRefused) {
  test::Folder folder;
  Kept plain = with_rows(0);
  const fs::path saved = save_checkpoint(folder.path, small_train_state(3), kTexts, parameters(), plain.access);
  std::vector<FileRecord> files = read_manifest(saved);
  safetensors::Writer strange(saved / "optimizer-2.safetensors",
                              std::vector<safetensors::TensorSpec>{{.name = "neuron_avg_sq", .shape = {0}}});
  files.push_back(strange.finish());
  fs::remove(saved / "manifest.json");
  write_manifest(saved, files);
  EXPECT_THROW(load(saved, plain), Failure);
}

}  // namespace
}  // namespace llmc
