// The graph of a tiny spec after every pass, as text, against the files beside this one.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "compiler/passes/pipeline.h"
#include "compiler/spec/load.h"

namespace llmc::passes {
namespace {

namespace fs = std::filesystem;

// Odd widths, so that rows are padded; an untied head and biases, so that every kind of op is there.
constexpr const char* kSpec = R"(name: tiny
model:
  vocab_size: 13
  hidden_size: 12
  num_hidden_layers: 3
  num_attention_heads: 3
  num_key_value_heads: 1
  head_dim: 4
  intermediate_size: 10
  tie_word_embeddings: false
  attention_bias: true
  mlp_bias: true
precision: {compute: bf16}
batch: {sequence_length: 8, micro_batch: 2, tokens: 32}
memory: {budget: 1GiB, loss_chunk: 4, recompute: {every: 2}}
metrics: {per_parameter: true}
data: {train: [{path: train.bin}]}
)";

std::string read(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

/// Compares the dumps with the files of `folder`, or writes these.
void check(const std::vector<std::string>& overrides, const fs::path& folder) {
  const spec::LoadResult loaded = spec::load_text(kSpec, "tiny.yaml", overrides);
  ASSERT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  const std::vector<Dump> found = dumps(loaded.resolved->spec, choice_of(loaded.resolved->spec));
  ASSERT_FALSE(found.empty());
  const bool update = std::getenv("LLMC_UPDATE_GOLDEN") != nullptr;
  if (update) fs::create_directories(folder);
  std::set<fs::path> written;
  for (const Dump& dump : found) {
    const fs::path file = folder / dump.file;
    written.insert(file);
    if (update) std::ofstream(file, std::ios::binary) << dump.text;
    EXPECT_EQ(dump.text, read(file)) << dump.file << ": if this is intended, run again with LLMC_UPDATE_GOLDEN=1";
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (update && !written.count(entry.path()))
      fs::remove(entry.path());
    else
      EXPECT_TRUE(written.count(entry.path())) << entry.path() << " belongs to no pass";
  }
}

TEST(GoldenIr, Bf16RecomputedEverySecondLayer) { check({}, fs::path(GOLDEN_FOLDER) / "bf16-every-2"); }

TEST(GoldenIr, Fp32TiedWithoutBiases) {
  check({"precision.compute=fp32", "memory.recompute=[norms, swiglu]", "model.tie_word_embeddings=true",
         "model.attention_bias=false", "model.mlp_bias=false", "metrics.per_parameter=false"},
        fs::path(GOLDEN_FOLDER) / "fp32-norms-swiglu");
}

TEST(GoldenIr, Qwen3) {
  check({"model.qk_norm=true", "model.mlp_bias=false", "memory.recompute=[norms]"},
        fs::path(GOLDEN_FOLDER) / "bf16-qk-norm");
}

}  // namespace
}  // namespace llmc::passes
