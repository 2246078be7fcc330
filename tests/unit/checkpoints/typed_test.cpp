// Checkpoints with state of other types than fp32, of blocks, and of some parameters: shown, verified, compared.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/tools/checkpoints/compare.h"
#include "compiler/tools/checkpoints/damage.h"
#include "compiler/tools/checkpoints/show.h"
#include "small_run.h"

namespace llmc::checkpoints {
namespace {

namespace fs = std::filesystem;

/// Of layers' matrices bf16, codes and a scale for each 64 elements; of the rest fp32.
std::vector<SavedBuffer> typed_buffers(const spec::Spec&) {
  return {{},
          {"momentum.", DType::bf16, 1, 0b0001},
          {"momentum_scale.", DType::f32, 64, 0b0001},
          {"momentum_code.", DType::byte, 1, 0b0001},
          {"exp_avg.", DType::f32, 1, 0b1110}};
}

class Typed : public testing::Test {
 protected:
  Typed() {
    for (const SavedBuffer& buffer : typed_buffers(model_.spec()))
      memory_.emplace_back(static_cast<std::size_t>(
          bytes_of(buffer.dtype, in_blocks(static_cast<std::int64_t>(model_.weights().size()), buffer.block))));
    std::memcpy(memory_[0].data(), model_.weights().data(), memory_[0].size());
    for (std::size_t b = 1; b < memory_.size(); ++b)
      for (std::size_t i = 0; i < memory_[b].size(); ++i)
        memory_[b][i] = static_cast<std::byte>((i * 31 + b * 7 + (i >> 7)) & 0x3f);
  }

  fs::path save(const fs::path& run, std::int64_t shard_bytes = kShardBytes) {
    std::vector<std::byte*> begins;
    for (auto& bytes : memory_) begins.push_back(bytes.data());
    HostState state(typed_buffers(model_.spec()), begins, static_cast<std::int64_t>(model_.weights().size()));
    return model_.save(run, 1, state, shard_bytes);
  }

  /// Element `i` of a parameter's in a buffer.
  template <class T>
  void set(std::size_t buffer, const std::string& parameter, std::int64_t i, T value) {
    const ParameterInfo own = parameter_in(typed_buffers(model_.spec())[buffer], model_.parameter(parameter));
    std::memcpy(memory_[buffer].data() + static_cast<std::size_t>(own.offset + i) * sizeof value, &value, sizeof value);
  }

  test::Folder a_, b_;
  SmallModel model_{{"model.hidden_size=64", "model.head_dim=16", "model.intermediate_size=64"}};
  std::vector<std::vector<std::byte>> memory_;
};

TEST_F(Typed, ShownAndVerifiedWhateverTheFiles) {
  for (const std::int64_t shard : {kShardBytes, kSmallShard}) {
    test::Folder run;
    const fs::path path = save(run.path, shard);
    const DamageReport verdict = inspect_checkpoint(path, typed_buffers);
    EXPECT_TRUE(verdict.damage.empty()) << damage_text(verdict);
    const Contents contents = open(path);
    EXPECT_EQ(show_json(contents).at("moments"),
              (std::vector<std::string>{"exp_avg", "momentum", "momentum_code", "momentum_scale"}));
    std::string found;
    const nlohmann::ordered_json shown = show_json(contents);
    for (const auto& tensor : shown.at("tensors"))
      if (tensor.at("name").get<std::string>().ends_with("layers.1.mlp.up_proj.weight")) found += tensor.dump() + "\n";
    for (const char* text : {R"("dtype":"BF16","shape":[64,64])", R"("dtype":"F32","shape":[64],)",
                             R"("dtype":"U8","shape":[64,64])", R"("dtype":"F32","shape":[64,64])"})
      EXPECT_NE(found.find(text), std::string::npos) << text << " in\n" << found;
    const std::vector<Damage> of_adamw = inspect_checkpoint(path).damage;
    EXPECT_FALSE(of_adamw.empty()) << "the spec's optimizer keeps something else";
  }
}

TEST_F(Typed, AValueOfBf16ThatIsNotFiniteNamesItsTensor) {
  set<std::uint16_t>(1, "model.layers.2.mlp.down_proj.weight", 5, 0x7f80);
  const fs::path path = save(a_.path), file = path / "optimizer.safetensors";
  std::string content = read_all(file);
  content.back() = static_cast<char>(content.back() ^ 1);
  write_all(file, content);
  std::vector<std::string> tensors;
  for (const Damage& damage : inspect_checkpoint(path, typed_buffers).damage) tensors.push_back(damage.tensor);
  EXPECT_EQ(tensors, (std::vector<std::string>{"", "momentum.model.layers.2.mlp.down_proj.weight"}));
}

TEST_F(Typed, DifferencesAreOfTheStoredNumbers) {
  const std::string name = "model.layers.0.mlp.up_proj.weight";
  set<std::uint16_t>(1, name, 7, 0x3f80);  // 1
  set(2, name, 3, 2.0f);
  set<std::uint8_t>(3, name, 9, 40);
  const fs::path before = save(a_.path);
  set<std::uint16_t>(1, name, 7, 0x4000);  // 2
  set(2, name, 3, 2.5f);
  set<std::uint8_t>(3, name, 9, 43);
  const Comparison comparison = compare(open(before), open(save(b_.path, kSmallShard)));
  std::map<std::string, double> largest;
  for (const TensorChange& change : comparison.tensors) largest[change.name] = change.largest;
  EXPECT_EQ(largest, (std::map<std::string, double>{
                         {"momentum." + name, 1}, {"momentum_scale." + name, 0.5}, {"momentum_code." + name, 3}}));
}

}  // namespace
}  // namespace llmc::checkpoints
