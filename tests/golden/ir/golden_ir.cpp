// Compares the graph of a tiny spec and each pass's changes, as text, with the files in this folder.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "changes.h"
#include "compiler/passes/pipeline.h"
#include "compiler/spec/load.h"

namespace llmc::passes {
namespace {

namespace fs = std::filesystem;

// Odd widths, so that rows are padded; an untied head and biases, so that every kind of op occurs.
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

/// Compares the graph and each pass's changes with `name`.txt, or writes that file.
void check(const std::vector<std::string>& overrides, const std::string& name) {
  const spec::LoadResult loaded = spec::load_text(kSpec, "tiny.yaml", overrides);
  ASSERT_TRUE(loaded.resolved) << spec::render(loaded.diagnostics);
  std::string before, found;
  const spec::Spec& spec = loaded.resolved->spec;
  const Choice choice{spec.batch.micro_batch, spec.memory.loss_chunk, recompute_of(spec)};
  for (const GraphDump& dump : dumps(spec, graph::kinds_of(spec), choice)) {
    found += "== " + dump.file + "\n" + (before.empty() ? dump.text : changes(before, dump.text));
    before = dump.text;
  }
  const fs::path file = fs::path(GOLDEN_FOLDER) / (name + ".txt");
  if (std::getenv("LLMC_UPDATE_GOLDEN")) std::ofstream(file, std::ios::binary) << found;
  EXPECT_EQ(found, read(file)) << name << ": if this is intended, run again with LLMC_UPDATE_GOLDEN=1";
}

TEST(GoldenIr, Bf16RecomputedEverySecondLayer) { check({}, "bf16-every-2"); }

TEST(GoldenIr, Fp32TiedWithoutBiases) {
  check({"precision.compute=fp32", "memory.recompute=[norms, swiglu]", "model.tie_word_embeddings=true",
         "model.attention_bias=false", "model.mlp_bias=false", "metrics.per_parameter=false"},
        "fp32-norms-swiglu");
}

TEST(GoldenIr, Qwen3) {
  check({"model.qk_norm=true", "model.mlp_bias=false", "memory.recompute=[norms]"}, "bf16-qk-norm");
}

TEST(GoldenIr, Olmo2) {
  check({"model.norm_place=post", "model.qk_norm=true", "model.qk_norm_over=width", "model.mlp_bias=false",
         "memory.recompute=[norms, down]"},
        "bf16-post-norm");
}

// Widths of fp8; a layer in bf16 at either end.
const std::vector<std::string> kFp8 = {"precision.matmul=fp8",       "precision.fp8.first_layers=1",
                                       "model.head_dim=16",          "model.hidden_size=32",
                                       "model.intermediate_size=48", "model.mlp_bias=false",
                                       "memory.recompute=[norms]",   "model.attention_bias=true"};

TEST(GoldenIr, Fp8AsNumbersInBf16) { check(kFp8, "fp8-numbers"); }

TEST(GoldenIr, Fp8AsCodesAndScales) {
  std::vector<std::string> overrides = kFp8;
  overrides.insert(overrides.end(), {"target.kind=cuda", "target.arch=[90a]"});
  check(overrides, "fp8-codes");
}

TEST(GoldenIr, Fp8AsCodesAndScalesOfTensors) {
  std::vector<std::string> overrides = kFp8;
  overrides[0] = "precision.matmul=fp8_tensor";
  overrides.insert(overrides.end(), {"target.kind=cuda", "target.arch=[89]", "precision.fp8.last_layers=0"});
  check(overrides, "fp8-tensor-codes");
}

TEST(GoldenIr, ChangesSayWhatAndWhere) {
  const std::string before =
      "graph\n%x : fp32[1, 2]\nregion a (once)\n  one: %x = one()\n  two: %y = two(%x)\nregion b (once)\n  one: %z = "
      "one()\n";
  EXPECT_EQ(changes(before, before), "");
  EXPECT_EQ(
      changes(before,
              "graph\n%x : bf16[1, 2]\nregion a (once)\n  two: %y = two(%x)\n  one: %x = one()\nregion b (twice)\n"
              "  half: %h = half()\n  one: %z = one(%h)\n  three: %t = three()\n  four: %f = four()\n"),
      "-%x : fp32[1, 2]\n+%x : bf16[1, 2]\n"
      "region a\n-  one: %x = one()\n behind two\n+  one: %x = one()\n"
      "-region b (once)\n+region b (twice)\n"
      "+  half: %h = half()\n-  one: %z = one()\n+  one: %z = one(%h)\n+  three: %t = three()\n+  four: %f = four()\n");
}

}  // namespace
}  // namespace llmc::passes
