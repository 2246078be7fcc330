// Damage of every kind, reported by file and, if possible, by tensor; and the report of an intact checkpoint.
#include "compiler/tools/checkpoints/damage.h"

#include <gtest/gtest.h>

#include <limits>

#include "../facts.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "compiler/tools/checkpoints/show.h"
#include "small_run.h"

namespace llmc::checkpoints {
namespace {

namespace fs = std::filesystem;

class Verify : public testing::Test {
 protected:
  /// "file|tensor" of every error.
  std::vector<std::string> wrong(const fs::path& path) {
    std::vector<std::string> list;
    for (const Damage& damage : inspect_checkpoint(path).damage) list.push_back(damage.file + "|" + damage.tensor);
    return list;
  }
  /// Updates the manifest's checksums to the files, so that the remaining errors are not found by checksum.
  void bless(const fs::path& path) {
    std::vector<FileRecord> records;
    for (const auto& entry : fs::directory_iterator(path)) {
      const std::string name = entry.path().filename().string(), content = read_all(entry.path());
      if (name == "manifest.json") continue;
      Checksum checksum;
      checksum.update(content.data(), content.size());
      records.push_back({name, content.size(), checksum.hex()});
    }
    fs::remove(path / "manifest.json");
    write_manifest(path, records);
  }
  /// Rewrites a file of tensors with each shape passed through `change`; omits tensors that it empties.
  void rewrite(const fs::path& file, const std::function<void(safetensors::TensorSpec&)>& change) {
    std::vector<safetensors::TensorSpec> tensors;
    {
      const safetensors::Reader reader(file);
      for (const safetensors::Entry& entry : reader.entries()) {
        tensors.push_back({entry.name, entry.dtype, entry.shape});
        change(tensors.back());
        if (tensors.back().name.empty()) tensors.pop_back();
      }
    }
    fs::remove(file);
    safetensors::Writer writer(file, tensors);
    const std::string zeros(1 << 16, '\0');
    for (const safetensors::Entry& entry : writer.entries()) writer.append(zeros.data(), entry.bytes());
    writer.finish();
  }

  test::Folder run_;
  SmallModel model_;
};

TEST_F(Verify, SoundOfOneFileAndOfSeveral) {
  for (const std::int64_t shard : {kShardBytes, kSmallShard}) {
    const fs::path path = model_.save(run_.path, shard == kShardBytes ? 1 : 2, shard);
    const DamageReport verdict = inspect_checkpoint(path);
    EXPECT_TRUE(verdict.damage.empty()) << damage_text(verdict);
    EXPECT_EQ(verdict.tensors, static_cast<std::int64_t>(3 * model_.tensors()));
    EXPECT_EQ(verdict.files > 10, shard == kSmallShard) << verdict.files;
    EXPECT_NE(damage_text(verdict).find(": complete ("), std::string::npos);
    EXPECT_TRUE(damage_json(verdict).at("complete").get<bool>());
  }
}

TEST_F(Verify, TiedAndNormedModels) {
  for (const char* key : {"model.tie_word_embeddings=true", "model.qk_norm=true"}) {
    SmallModel other({key, "model.mlp_bias=false"});
    EXPECT_TRUE(inspect_checkpoint(other.save(run_.path, 1)).damage.empty()) << key;
  }
}

TEST_F(Verify, EveryFileFlipped) {
  const fs::path path = model_.save(run_.path, 1, kSmallShard);
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  for (const fs::path& file : files) {
    const std::string sound = read_all(file);
    std::string flipped = sound;
    flipped[sound.size() - 3] = static_cast<char>(flipped[sound.size() - 3] ^ 1);
    write_all(file, flipped);
    const std::vector<std::string> list = wrong(path);
    const std::string name = file.filename().string();
    ASSERT_FALSE(list.empty()) << name;
    EXPECT_EQ(list[0], name + "|");
    write_all(file, sound);
  }
  EXPECT_TRUE(wrong(path).empty());
}

TEST_F(Verify, AValueThatIsNotFiniteNamesItsTensor) {
  const fs::path path = model_.save(run_.path, 1), file = path / "model.safetensors";
  std::string content = read_all(file);
  const safetensors::Reader reader(file);
  const safetensors::Entry* entry = reader.find("model.layers.1.mlp.up_proj.weight");
  const std::uint64_t data = content.size() - reader.entries().back().end;
  const float wrong_value = std::numeric_limits<float>::infinity();
  content.replace(data + entry->begin + 8, sizeof wrong_value, reinterpret_cast<const char*>(&wrong_value),
                  sizeof wrong_value);
  write_all(file, content);
  EXPECT_EQ(wrong(path),
            (std::vector<std::string>{"model.safetensors|", "model.safetensors|model.layers.1.mlp.up_proj.weight"}));
}

TEST_F(Verify, AFileThatIsCutNamesTheTensorsThatAreLost) {
  const fs::path path = model_.save(run_.path, 1), file = path / "model.safetensors";
  const std::string sound = read_all(file);
  std::vector<std::string> names;
  {
    const safetensors::Reader reader(file);
    for (const safetensors::Entry& entry : reader.entries()) names.push_back(entry.name);
    const safetensors::Entry& third_last = reader.entries()[names.size() - 3];
    const std::uint64_t data = sound.size() - reader.entries().back().end;
    write_all(file, sound.substr(0, data + third_last.begin + 4));
  }
  std::vector<std::string> expected = {"model.safetensors|"};
  for (std::size_t i = names.size() - 3; i < names.size(); ++i) expected.push_back("model.safetensors|" + names[i]);
  EXPECT_EQ(wrong(path), expected);
  // Long lists show the first few entries, and how many more there are.
  write_all(file, sound.substr(0, 20'000));
  const std::string text = damage_text(inspect_checkpoint(path));
  EXPECT_NE(text.find(" more tensors (--json lists all)"), std::string::npos) << text;
  // A truncated header gives no tensors.
  write_all(file, sound.substr(0, 100));
  EXPECT_EQ(wrong(path), (std::vector<std::string>{"model.safetensors|"}));
}

TEST_F(Verify, TensorsThatAreNotTheModels) {
  const fs::path path = model_.save(run_.path, 1);
  rewrite(path / "model.safetensors", [](safetensors::TensorSpec& tensor) {
    if (tensor.name == "model.norm.weight") tensor.name = "";
    if (tensor.name == "lm_head.weight") tensor.shape = {36, 61};
  });
  rewrite(path / "optimizer.safetensors", [](safetensors::TensorSpec& tensor) {
    if (tensor.name == "exp_avg.lm_head.weight") tensor.name = "exp_avg.other.weight";
  });
  bless(path);
  EXPECT_EQ(wrong(path),
            (std::vector<std::string>{"model.safetensors|model.norm.weight", "model.safetensors|lm_head.weight",
                                      "optimizer.safetensors|exp_avg.lm_head.weight",
                                      "optimizer.safetensors|exp_avg.other.weight"}));
  fs::remove(path / "optimizer.safetensors");
  bless(path);
  EXPECT_EQ(wrong(path).back(), "optimizer.safetensors|");
}

TEST_F(Verify, IndexStateSpecAndStrangers) {
  const fs::path path = model_.save(run_.path, 1, kSmallShard), index = path / "model.safetensors.index.json";
  std::string text = read_all(index);
  const std::size_t first = text.find("model-00001-of");
  ASSERT_NE(first, std::string::npos);
  text.replace(first, 11, "model-00002");
  write_all(index, text);
  bless(path);
  const std::vector<std::string> list = wrong(path);
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].substr(0, 29), "model.safetensors.index.json|");

  const fs::path moved = run_.path / "step-00000009";
  fs::rename(model_.save(run_.path, 2), moved);
  write_all(moved / "notes.txt", "mine");
  for (const fs::path& named : {moved, moved / ""})
    EXPECT_EQ(wrong(named), (std::vector<std::string>{"state.json|"})) << named;
  EXPECT_EQ(inspect_checkpoint(moved).strangers, (std::vector<std::string>{"notes.txt"}));

  const fs::path other = model_.save(run_.path, 3);
  std::string yaml = read_all(other / "spec.yaml");
  yaml.replace(yaml.find("vocab_size: 61"), 14, "vocab_size: 62");
  write_all(other / "spec.yaml", yaml);
  bless(other);
  EXPECT_EQ(wrong(other), (std::vector<std::string>{"spec.yaml|"}));
}

TEST_F(Verify, ShowNamesEveryTensorOnce) {
  const Contents contents = open(model_.save(run_.path, 7, kSmallShard));
  const nlohmann::ordered_json shown = show_json(contents);
  EXPECT_EQ(shown.at("step"), 7);
  EXPECT_EQ(shown.at("moments"), (std::vector<std::string>{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(shown.at("model"), spec::model_fingerprint(model_.spec()));
  EXPECT_EQ(shown.at("tensors").size(), 3 * model_.tensors());
  EXPECT_EQ(shown.at("tensors")[0].at("name"), "model.embed_tokens.weight");
  EXPECT_EQ(shown.at("tensors")[0].at("shape"), (std::vector<int>{61, 36}));
  EXPECT_EQ(shown.at("tensors")[0].at("file").get<std::string>().substr(0, 14), "model-00001-of");
  const std::string text = show_text(contents);
  EXPECT_NE(text.find("lm_head.weight"), std::string::npos);
  EXPECT_NE(text.find("[61, 36]"), std::string::npos);
}

TEST_F(Verify, WhatARunRemovesIsReplacedByItsNewest) {
  const fs::path first = model_.save(run_.path, 1);
  std::vector<fs::path> taken;
  const auto take = [&](const std::vector<fs::path>& found) {
    taken.push_back(found.at(0));
    if (found[0] == first) {
      model_.save(run_.path, 2);
      fs::remove_all(first);
      EXPECT_TRUE(inspect_checkpoint(first).removed);
    }
    open(found[0]);
  };
  with_checkpoints({run_.path}, {}, take);
  ASSERT_EQ(taken.size(), 2u);
  EXPECT_EQ(taken[1].filename(), "step-00000002");
  model_.save(run_.path, 1);
  EXPECT_THROW(with_checkpoints({first}, {}, take), Failure) << "a checkpoint that was named itself has no other";
}

TEST_F(Verify, WhatIsNoCheckpointIsRefused) {
  const auto refusal = [](const fs::path& path) -> std::string {
    try {
      open(find_checkpoint(path, {}));
      return "";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::checkpoint);
      return failure.what();
    }
  };
  EXPECT_TRUE(test::has_facts(refusal(run_.path / "absent"), {"no checkpoint", "absent'"}));
  EXPECT_TRUE(test::has_facts(refusal(run_.path), {run_.path.string(), "neither"}));
  write_all(run_.path / "config.json", "{}");
  EXPECT_TRUE(test::has_facts(refusal(run_.path), {run_.path.string(), "Hugging Face"}));
  fs::create_directories(run_.path / "checkpoints");
  EXPECT_NE(refusal(run_.path).find("no complete checkpoint"), std::string::npos);
  const fs::path path = model_.save(run_.path, 1);
  EXPECT_EQ(refusal(run_.path), "");
  for (const char* name : {"checkpoints", "checkpoints/step-00000002", "step-00000002"})
    EXPECT_NE(refusal(run_.path / name).find("checkpoints' has step-00000001; checkpoint.keep_last"), std::string::npos)
        << refusal(run_.path / name);
  write_all(path / "spec.yaml", std::string(fs::file_size(path / "spec.yaml"), '\n'));
  EXPECT_NE(refusal(path), "") << "a spec without keys";
}

}  // namespace
}  // namespace llmc::checkpoints
