// Exported folders: tensors, files and bits; refusals, which leave no files.
#include "compiler/tools/checkpoints/export.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "../facts.h"
#include "checkpoint/safetensors.h"
#include "small_run.h"

namespace llmc::checkpoints {
namespace {

namespace fs = std::filesystem;

class Export : public testing::Test {
 protected:
  fs::path out() const { return folder_.path / "out"; }
  nlohmann::json json(const char* name) const { return nlohmann::json::parse(read_all(out() / name)); }
  /// Bits of every element of every tensor, by name, over all files.
  template <class Element>
  std::map<std::string, std::vector<Element>> tensors() const {
    std::map<std::string, std::vector<Element>> result;
    for (const auto& entry : fs::directory_iterator(out())) {
      if (entry.path().extension() != ".safetensors") continue;
      const safetensors::Reader reader(entry.path());
      for (const safetensors::Entry& tensor : reader.entries()) {
        EXPECT_EQ(safetensors::dtype_bytes(tensor.dtype), static_cast<std::int64_t>(sizeof(Element)));
        std::vector<Element> values(tensor.bytes() / sizeof(Element));
        reader.read(tensor, 0, values.data(), tensor.bytes());
        EXPECT_TRUE(result.emplace(tensor.name, std::move(values)).second) << tensor.name;
      }
    }
    return result;
  }
  std::string refusal(const ExportOptions& options, Exit code = Exit::checkpoint) {
    try {
      export_model(options);
      return "";
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), code) << failure.what();
      return failure.what();
    }
  }
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path)) names.push_back(entry.path().filename().string());
    return names;
  }

  test::Folder run_, folder_;
  SmallModel model_{{"precision.compute=fp32"}};
};

TEST_F(Export, EveryWeightAndNoMoment) {
  const fs::path checkpoint = model_.save(run_.path, 1, kSmallShard);
  const Exported exported = export_model({.checkpoint = checkpoint, .out = out(), .tokenizer = {}});
  EXPECT_EQ(exported.dtype, DType::f32) << "what the run computes in";
  EXPECT_EQ(exported.files, 1);
  const auto weights = tensors<float>();
  EXPECT_EQ(weights.size(), model_.tensors());
  std::int64_t parameters = 0;
  for (const auto& [name, values] : weights) {
    parameters += static_cast<std::int64_t>(values.size());
    for (std::size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(values[i], model_.weight(name, static_cast<std::int64_t>(i))) << name;
  }
  EXPECT_EQ(exported.parameters, parameters);
  EXPECT_EQ(exported.bytes, 4 * parameters);
  EXPECT_FALSE(fs::exists(out() / "model.safetensors.index.json"));
  EXPECT_EQ(json("config.json").at("architectures")[0], "LlamaForCausalLM");
  EXPECT_EQ(json("config.json").at("torch_dtype"), "float32");
  EXPECT_TRUE(json("config.json").at("eos_token_id").is_null());
  EXPECT_EQ(json("generation_config.json"), nlohmann::json::object()) << "no length of ours";
  const std::string card = read_all(out() / "README.md");
  EXPECT_EQ(card.substr(0, 4), "---\n");
  EXPECT_NE(card.find("vocab_size: 61"), std::string::npos) << card;
}

TEST_F(Export, FilesOfAtMostTheLimit) {
  const fs::path checkpoint = model_.save(run_.path, 1);
  constexpr std::int64_t kLimit = 15'000;
  const Exported exported = export_model(
      {.checkpoint = checkpoint, .out = out(), .tokenizer = {}, .dtype = DType::f32, .shard_bytes = kLimit});
  EXPECT_GT(exported.files, 3);
  const nlohmann::json index = json("model.safetensors.index.json");
  EXPECT_EQ(index.at("metadata").at("total_size"), exported.bytes);
  EXPECT_EQ(index.at("weight_map").size(), model_.tensors());
  std::set<std::string> files;
  for (const auto& [name, file] : index.at("weight_map").items()) {
    const safetensors::Reader reader(out() / file.get<std::string>());
    EXPECT_NE(reader.find(name), nullptr) << name;
    EXPECT_TRUE(reader.entries().size() == 1 || reader.entries().back().end <= kLimit) << file;
    files.insert(file);
  }
  EXPECT_EQ(static_cast<std::int64_t>(files.size()), exported.files);
  EXPECT_EQ(tensors<float>().size(), model_.tensors());
}

TEST_F(Export, Bf16IsRoundedToNearestTiesToEven) {
  const std::string name = "model.norm.weight";
  // Adjacent bf16 numbers between 1 and 2 are 2^-7 apart.
  const std::vector<std::pair<float, float>> cases = {{1 + 0x1p-8f, 1},            // a tie: 1 is even
                                                      {1 + 0x3p-8f, 1 + 0x1p-6f},  // a tie: the even one is above
                                                      {1 + 0x1p-8f + 0x1p-23f, 1 + 0x1p-7f},  // above a tie
                                                      {1 + 0x3p-8f - 0x1p-23f, 1 + 0x1p-7f},  // below one
                                                      {-1 - 0x1p-8f, -1},
                                                      {-0.0f, -0.0f},
                                                      {0x1.ffp1f, 4},   // into the next exponent
                                                      {0x1p-149f, 0}};  // below half of the smallest
  for (std::size_t i = 0; i < cases.size(); ++i) model_.weight(name, static_cast<std::int64_t>(i)) = cases[i].first;
  export_model({.checkpoint = model_.save(run_.path, 1), .out = out(), .tokenizer = {}, .dtype = DType::bf16});
  const auto weights = tensors<std::uint16_t>();
  EXPECT_EQ(weights.size(), model_.tensors());
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_EQ(static_cast<std::uint32_t>(weights.at(name)[i]) << 16, std::bit_cast<std::uint32_t>(cases[i].second))
        << i;
  EXPECT_EQ(json("config.json").at("dtype"), "bfloat16");
  EXPECT_EQ(json("config.json").at("torch_dtype"), "bfloat16");
}

TEST_F(Export, Fp16IsRoundedToo) {
  const std::string name = "model.norm.weight";
  // Adjacent fp16 numbers between 1 and 2 are 2^-10 apart; the least is 2^-24.
  const std::vector<std::pair<float, std::uint16_t>> cases = {
      {1.0f, 0x3c00}, {1 + 0x1p-11f, 0x3c00}, {1 + 0x3p-11f, 0x3c02}, {-0x1p-24f, 0x8001}, {65519.0f, 0x7bff}};
  for (std::size_t i = 0; i < cases.size(); ++i) model_.weight(name, static_cast<std::int64_t>(i)) = cases[i].first;
  export_model({.checkpoint = model_.save(run_.path, 1), .out = out(), .tokenizer = {}, .dtype = DType::f16});
  const auto weights = tensors<std::uint16_t>();
  for (std::size_t i = 0; i < cases.size(); ++i) EXPECT_EQ(weights.at(name)[i], cases[i].second) << i;
  EXPECT_EQ(json("config.json").at("dtype"), "float16");
  EXPECT_NE(read_all(out() / "README.md").find("fp16, rounded to nearest"), std::string::npos);
}

TEST_F(Export, RefusesWeightsPastTheRangeOfFp16) {
  model_.weight("model.norm.weight", 3) = -65520.0f;
  const fs::path checkpoint = model_.save(run_.path, 1);
  try {
    export_model({.checkpoint = checkpoint, .out = out(), .tokenizer = {}, .dtype = DType::f16});
    FAIL() << "it is exported";
  } catch (const Failure& e) {
    EXPECT_TRUE(test::has_facts(e.what(), {"model.norm.weight", "-65520", "fp16", "--dtype fp32"}));
  }
  EXPECT_FALSE(fs::exists(out()));
  EXPECT_EQ(export_model({.checkpoint = checkpoint, .out = out(), .tokenizer = {}}).dtype, DType::f32);
}

TEST_F(Export, TheDefaultIsWhatTheRunComputesIn) {
  SmallModel other(
      {"precision.compute=bf16", "model.qk_norm=true", "model.mlp_bias=false", "model.tie_word_embeddings=true"});
  const fs::path checkpoint = other.save(run_.path, 1);
  EXPECT_EQ(export_model({.checkpoint = checkpoint, .out = out(), .tokenizer = {}}).dtype, DType::bf16);
  const auto weights = tensors<std::uint16_t>();
  EXPECT_EQ(weights.count("lm_head.weight"), 0u);
  EXPECT_EQ(weights.count("model.layers.2.self_attn.k_norm.weight"), 1u);
  EXPECT_EQ(json("config.json").at("architectures")[0], "Qwen3ForCausalLM");
  EXPECT_EQ(json("config.json").at("tie_word_embeddings"), true);
}

TEST_F(Export, SaysWhatTransformersDoesNotLoad) {
  EXPECT_EQ(export_model({.checkpoint = model_.save(run_.path, 1), .out = out(), .tokenizer = {}}).not_loaded, "");
  EXPECT_EQ(read_all(out() / "README.md").find("transformers 5"), std::string::npos);
  fs::remove_all(out());
  SmallModel other({"model.hidden_size=38", "model.head_dim=6"});
  const Exported exported = export_model({.checkpoint = other.save(run_.path, 2), .out = out(), .tokenizer = {}});
  EXPECT_TRUE(test::has_facts(exported.not_loaded, {"hidden_size 38", "num_attention_heads"}));
  EXPECT_TRUE(test::has_facts(read_all(out() / "README.md"), {"transformers 5", "Llama"}));
}

TEST_F(Export, RefusesAModelOfNoFamily) {
  SmallModel other({"model.qk_norm=true", "model.mlp_bias=true"});
  const fs::path checkpoint = other.save(run_.path, 1);
  try {
    export_model({.checkpoint = checkpoint, .out = out(), .tokenizer = {}});
    FAIL() << "it is exported";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::checkpoint);
    EXPECT_TRUE(test::has_facts(failure.what(), {"cannot be exported", "llama", "model.qk_norm: true"}));
  }
  EXPECT_FALSE(fs::exists(out()));
}

TEST_F(Export, DamagedCheckpointsLeaveNothing) {
  const fs::path checkpoint = model_.save(run_.path, 1), file = checkpoint / "model.safetensors";
  std::string content = read_all(file);
  content[content.size() - 9] = static_cast<char>(content[content.size() - 9] ^ 1);
  write_all(file, content);
  const std::string said = refusal({.checkpoint = checkpoint, .out = out(), .tokenizer = {}});
  EXPECT_NE(said.find("is damaged: model.safetensors: "), std::string::npos) << said;
  EXPECT_EQ(entries(), std::vector<std::string>());
}

TEST_F(Export, WhereSomethingLies) {
  const fs::path checkpoint = model_.save(run_.path, 1);
  const ExportOptions options{.checkpoint = checkpoint, .out = out(), .tokenizer = {}};
  fs::create_directory(out());
  write_all(out() / "notes", "mine");
  EXPECT_TRUE(test::has_facts(refusal(options), {out().string(), "not empty", "\"notes\""}));
  EXPECT_EQ(read_all(out() / "notes"), "mine");
  fs::remove(out() / "notes");
  EXPECT_EQ(refusal(options), "") << "an empty folder";
  EXPECT_NE(refusal(options).find("is not empty"), std::string::npos) << "an exported one";
  fs::remove_all(out());
  write_all(out(), "a file");
  EXPECT_TRUE(test::has_facts(refusal(options), {out().string(), "not a folder"}));
  EXPECT_EQ(entries(), (std::vector<std::string>{"out"}));
}

TEST_F(Export, NotAmongATrainersFiles) {
  const fs::path checkpoint = model_.save(run_.path, 1, kSmallShard);
  const auto before = std::distance(fs::recursive_directory_iterator(run_.path), {});
  fs::create_directory_symlink(checkpoint, folder_.path / "link");
  for (const fs::path& out : {checkpoint, checkpoint / "model", checkpoint / "a/b", folder_.path / "link/model"}) {
    const std::string refused = refusal({.checkpoint = checkpoint, .out = out, .tokenizer = {}});
    EXPECT_NE(refused.find("is in the checkpoint '"), std::string::npos) << refused;
  }
  for (const char* name : {"checkpoints/model", "checkpoints/model/", "checkpoints/step-00000002"}) {
    const std::string refused = refusal({.checkpoint = checkpoint, .out = run_.path / name, .tokenizer = {}});
    EXPECT_NE(refused.find("is in a run's '"), std::string::npos) << refused;
    EXPECT_EQ(refused.find("-o -model"), std::string::npos) << refused;
  }
  EXPECT_EQ(std::distance(fs::recursive_directory_iterator(run_.path), {}), before) << "nothing was made";
  export_model({.checkpoint = checkpoint, .out = run_.path / "model", .tokenizer = {}});
}

TEST_F(Export, IsNotMadeThroughALink) {
  const fs::path checkpoint = model_.save(run_.path, 1, kSmallShard), elsewhere = folder_.path / "elsewhere";
  fs::create_directory(elsewhere);
  fs::create_directory_symlink(elsewhere, out().string() + ".partial-" + std::to_string(::getpid()));
  export_model({.checkpoint = checkpoint, .out = out(), .tokenizer = {}});
  EXPECT_TRUE(fs::is_empty(elsewhere));
  EXPECT_TRUE(fs::exists(out() / "config.json") && !fs::is_symlink(out()));
}

TEST_F(Export, TokenizersOfOthers) {
  const fs::path checkpoint = model_.save(run_.path, 1), file = folder_.path / "tokenizer.model";
  const ExportOptions options{.checkpoint = checkpoint, .out = out(), .tokenizer = file};
  EXPECT_NE(refusal(options, Exit::data), "") << "there is none";
  write_all(file, "anything");
  const std::string said = refusal(options, Exit::data);
  EXPECT_TRUE(test::has_facts(said, {file.string(), "not the tokenizer", "checksum", "--tokenizer"}));
  EXPECT_FALSE(fs::exists(out()));
  // The checkpoint's folder is no run, so there is no tokenizer.
  EXPECT_EQ(export_model({.checkpoint = checkpoint, .out = out(), .tokenizer = {}}).tokenizer, "");
}

}  // namespace
}  // namespace llmc::checkpoints
