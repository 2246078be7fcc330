// Suggested edits are correct: every example of every code, and the suggestions for random wrong specs.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <sstream>

#include "../facts.h"
#include "compiler/plan/plan.h"
#include "compiler/spec/codes.h"
#include "compiler/spec/load.h"
#include "spec/advice/synonyms.h"
#include "spec/schema/schema.h"

namespace llmc::spec {
namespace {

using test::Facts;
using test::has_facts;

const char* const kBase = R"(name: base
model: {vocab_size: 4096, hidden_size: 256, num_hidden_layers: 6, num_attention_heads: 8}
batch: {sequence_length: 256}
data: {train: [{path: "train-*.bin"}]}
)";

std::optional<std::string> read_example(const std::string& path) {
  if (path == "base.yaml") return kBase;
  if (path == "this.yaml") return "extends: this.yaml\n";
  return {};
}

LoadResult load_example(const std::string& example) {
  if (example.compare(0, 5, "llmc ") != 0) {
    const bool whole = example.find("extends:") != std::string::npos || example.find("train:") != std::string::npos;
    const std::string text = whole ? example + "\n" : "extends: base.yaml\n" + example + "\n";
    return load_text(text, "this.yaml", {}, read_example);
  }
  std::vector<std::string> words;
  bool quoted = false, fresh = true;
  for (char c : example) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      fresh = true;
    } else {
      if (fresh) words.emplace_back();
      fresh = false;
      words.back() += c;
    }
  }
  return load_text(kBase, "spec.yaml", {words.begin() + 3, words.end()}, read_example);
}

TEST(Examples, OfAllCodesAreAsTheySay) {
  // Suggestions that are no spec text are given in words.
  const std::set<std::string> in_words = {"E0102", "E0103", "E0402"};
  for (const Code& code : codes()) {
    if (in_words.count(code.code)) continue;
    const LoadResult wrong = load_example(code.wrong), right = load_example(code.right);
    EXPECT_TRUE(std::any_of(wrong.diagnostics.begin(), wrong.diagnostics.end(),
                            [&](const Diagnostic& d) { return d.code == code.code; }))
        << code.code << "\n"
        << code.wrong << "\n"
        << render(wrong.diagnostics);
    ASSERT_TRUE(right.resolved || !right.phases.empty()) << code.code << "\n"
                                                         << code.right << "\n"
                                                         << render(right.diagnostics);
  }
}

TEST(Examples, AreFoundInEitherCase) {
  EXPECT_EQ(explain("e0301"), explain("E0301"));
  EXPECT_FALSE(explain("E03"));
  for (const Code& code : codes())
    EXPECT_NE(explain_all().find(fmt::format("{}  {}\n", code.code, code.title)), std::string::npos);
}

/// A spec as a map from key path to value, so that an edit changes one entry.
using Flat = std::map<std::string, std::string>;

/// Keys below `prefix` as nested flow maps.
std::string flow(const Flat& flat, const std::string& prefix) {
  std::set<std::string> children;
  for (const auto& [path, value] : flat)
    if (path.compare(0, prefix.size(), prefix) == 0)
      children.insert(path.substr(prefix.size(), path.find('.', prefix.size()) - prefix.size()));
  std::string text;
  for (const std::string& child : children) {
    const auto leaf = flat.find(prefix + child);
    std::string value = leaf != flat.end() ? leaf->second : flow(flat, prefix + child + ".");
    const KeyGroup* group = find_group(prefix + child);
    if (leaf == flat.end() && group && group->list_of_one) value = "[" + value + "]";
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", child, value);
  }
  return "{" + text + "}";
}

LoadResult load_flat(const Flat& flat) {
  return load_text(flow(flat, "") + "\n", "random.yaml", {}, {}, plan::planned_exit);
}

const std::vector<Flat>& bases() {
  static const std::vector<Flat> list = {{{"name", "a"},
                                          {"model.vocab_size", "512"},
                                          {"model.hidden_size", "64"},
                                          {"model.num_hidden_layers", "2"},
                                          {"model.num_attention_heads", "4"},
                                          {"batch.sequence_length", "64"},
                                          {"batch.tokens", "1024"},
                                          {"precision.compute", "fp32"},
                                          {"data.train.path", "\"t.bin\""},
                                          {"schedule.steps", "100"}},
                                         {{"name", "b"},
                                          {"model.vocab_size", "512"},
                                          {"model.hidden_size", "256"},
                                          {"model.num_hidden_layers", "3"},
                                          {"model.num_attention_heads", "8"},
                                          {"model.num_key_value_heads", "4"},
                                          {"batch.sequence_length", "128"},
                                          {"batch.tokens", "2048"},
                                          {"batch.micro_batch", "4"},
                                          {"memory.loss_chunk", "256"},
                                          {"model.rope_scaling.type", "llama3"},
                                          {"target.kind", "cuda"},
                                          {"target.attention", "cudnn"},
                                          {"memory.recompute", "{every: 2}"},
                                          {"data.train.path", "\"t.bin\""}},
                                         {{"name", "c"},
                                          {"model.vocab_size", "512"},
                                          {"model.hidden_size", "96"},
                                          {"model.num_hidden_layers", "2"},
                                          {"model.num_attention_heads", "6"},
                                          {"batch.sequence_length", "64"},
                                          {"batch.tokens", "1024"},
                                          {"precision.compute", "fp32"},
                                          {"memory.budget", "64MiB"},
                                          {"schedule.kind", "wsd"},
                                          {"schedule.steps", "100"},
                                          {"schedule.decay_fraction", "0.5"},
                                          {"data.validation.path", "\"v.bin\""},
                                          {"evaluation.every", "10"},
                                          {"sampling.prompts", "[\"a\"]"},
                                          {"sampling.every", "10"},
                                          {"checkpoint.every", "10"},
                                          {"checkpoint.keep_every", "20"},
                                          {"data.train.path", "\"t.bin\""}}};
  return list;
}

/// Introduces one error, most of the time.
void damage(Flat& flat, std::mt19937& random) {
  const auto pick = [&](const auto& list) { return list[random() % std::size(list)]; };
  static const char* const kNumbers[] = {"1",   "2",  "3",   "5",   "7",   "12",    "20",   "31",   "48",
                                         "63",  "66", "100", "250", "300", "1000",  "1025", "4000", "1e3",
                                         "007", "+5", "0.5", ".5",  "2.",  "65536", "1M",   "16Ki", "-1"};
  static const char* const kWords[] = {"auto",     "none",    "yes",    "off",  "gpu",  "cosin",
                                       "bfloat16", "float32", "lama3",  "adam", "h200", "h100-80g",
                                       "flash",    "sm_90a",  "native", "Full", "zen4"};
  const Key& key = keys()[random() % keys().size()];
  switch (random() % 6) {
    case 0:
    case 1:  // replaces a number
      flat[key.path] = pick(kNumbers);
      return;
    case 2:  // a number in a relation
      flat[pick(std::vector<std::string>{"model.hidden_size", "model.num_attention_heads", "model.num_key_value_heads",
                                         "model.head_dim", "batch.tokens", "batch.micro_batch", "batch.sequence_length",
                                         "memory.loss_chunk", "schedule.steps", "schedule.warmup_steps",
                                         "checkpoint.every", "checkpoint.keep_every", "model.num_hidden_layers"})] =
          pick(kNumbers);
      return;
    case 3:  // a word value
      flat[key.path] = pick(kWords);
      return;
    case 4: {  // a key with a letter missing
      const auto found = std::next(flat.begin(), static_cast<std::ptrdiff_t>(random() % flat.size()));
      std::string path = found->first;
      if (path.size() - path.rfind('.') < 4) return;
      path.erase(path.size() - 2, 1);
      const std::string value = found->second;
      if (!key.required) flat.erase(found);
      flat[path] = value;
      return;
    }
    case 5:  // a key of an option not chosen
      flat[pick(std::vector<std::string>{"schedule.decay_fraction", "model.rope_scaling.factor", "sampling.tokens",
                                         "evaluation.sequences", "memory.recompute", "target.arch"})] =
          pick(std::vector<std::string>{"0.25", "8", "16", "{every: 9}", "[norm, qkv]", "[90a, 9O]"});
      return;
  }
}

Flat edited(Flat flat, const Edit& edit) {
  flat.erase(edit.remove);
  if (!edit.from.empty()) {
    flat[edit.to] = flat.at(edit.from);
    flat.erase(edit.from);
  }
  for (const auto& [path, value] : edit.write) {
    const auto below = path + ".";  // a value instead of a map
    for (auto it = flat.begin(); it != flat.end();)
      it = it->first.compare(0, below.size(), below) == 0 ? flat.erase(it) : std::next(it);
    flat[path] = value;
  }
  return flat;
}

TEST(Suggestions, OfRandomWrongSpecsAreRight) {
  std::mt19937 random(20);
  std::map<std::string, int> followed;
  int specs = 0;
  while (specs < 1500) {
    Flat flat = bases()[random() % bases().size()];
    for (std::size_t n = random() % 3 + 1; n > 0; --n) damage(flat, random);
    const LoadResult before = load_flat(flat);
    if (before.resolved) continue;
    ++specs;
    std::set<std::pair<std::string, std::string>> known;
    for (const Diagnostic& d : before.diagnostics) known.insert({d.code, d.key});
    for (const Diagnostic& d : before.diagnostics)
      for (const Edit& edit : d.edits) {
        const Flat changed = edited(flat, edit);
        const LoadResult after = load_flat(changed);
        const std::string where = fmt::format("{}\n{}{}\n", flow(flat, ""), render(d), flow(changed, ""));
        const bool slip =
            !edit.from.empty() && (edit.meant || !find_group(group_of(edit.from)));  // independent of its value
        for (const Diagnostic& left : after.diagnostics) {
          EXPECT_FALSE(left.code == d.code && left.key == d.key) << where << render(left);
          EXPECT_TRUE(slip || known.count({left.code, left.key})) << where << render(left);
        }
        if (after.resolved) {
          EXPECT_NE(plan::planned_exit(after.resolved->spec), Exit::spec) << where;
        }
        ++followed[d.code];
      }
  }
  for (const char* code : {"E0201", "E0203", "E0204", "E0206", "E0301", "E0302", "E0303", "E0304", "E0305", "E0306",
                           "E0307", "E0308", "E0309", "E0311", "E0314", "E0315"})
    EXPECT_GE(followed[code], 5) << code;
}

std::string advice(const std::string& key_and_value) {
  const LoadResult result = load_text(kBase, "base.yaml", {key_and_value}, {}, plan::planned_exit);
  return result.diagnostics.empty() ? "" : result.diagnostics[0].advice;
}

TEST(Suggestions, ForSizesThatDoNotDivide) {
  EXPECT_TRUE(has_facts(advice("model.hidden_size=250"), {"hidden_size: 240 or 256", "num_attention_heads: 5 or 25",
                                                          "head_dim: 24", "transformers 5", "Llama"}));
  EXPECT_EQ(advice("target={kind: cuda, arch: sm_90}"), "did you mean 90a?");
  EXPECT_EQ(advice("target={kind: cuda, arch: sm_90a}"), "did you mean 90a?");
  EXPECT_EQ(advice("target={kind: cuda, arch: h100}"), "did you mean 90a?") << "not Blackwell's 100";
}

TEST(Synonyms, LeadToKeysAndWordsThatExist) {
  for (const KeySynonym& synonym : key_synonyms()) {
    EXPECT_TRUE(!*synonym.key || find_key(synonym.key) || find_group(synonym.key)) << synonym.word;
    EXPECT_TRUE(*synonym.key || *synonym.note) << synonym.word;
    EXPECT_EQ(plain_word(synonym.word), synonym.word);
  }
  for (const WordSynonym& synonym : word_synonyms()) {
    const bool gpu = std::string(synonym.key) == "target.arch" || std::string(synonym.ours) == "fp16";
    const LoadResult ours = load_text(
        kBase, "base.yaml", {fmt::format("{}={}", synonym.key, synonym.ours), gpu ? "target.kind=cuda" : "seed=1"});
    for (const Diagnostic& d : ours.diagnostics) EXPECT_TRUE(d.key != synonym.key || d.code == "E0309") << render(d);
  }
}

/// Keys in sections unknown to llmc, as in torchtitan's command line or files.
TEST(Synonyms, OfSectionsOfOtherFrameworks) {
  EXPECT_EQ(advice("training.seq_len=2048"), "llmc's key is batch.sequence_length");
  EXPECT_EQ(advice("training.local_batch_size=8"), "llmc's key is batch.micro_batch");
  EXPECT_TRUE(has_facts(advice("training.global_batch_size=8"), {"batch.tokens", "sequences * batch.sequence_length"}));
  EXPECT_EQ(advice("training.steps=100"), "the key is schedule.steps");
  EXPECT_EQ(advice("training.seed=1"), "llmc's key is seed");
  EXPECT_EQ(advice("lr_scheduler.warmup_steps=3"), "the key is schedule.warmup_steps");
  EXPECT_TRUE(has_facts(advice("weight_decay=0.2"), {"optimizer.weight_decay"}));
  EXPECT_TRUE(has_facts(advice("training.weight_decay=0.2"), {"optimizer.weight_decay"}));
  EXPECT_EQ(advice("optimizer.name=AdamW"), "llmc's key is optimizer.kind");
  EXPECT_TRUE(has_facts(advice("model.name=llama3"), {"sizes", "below model"}));
  EXPECT_EQ(advice("checkpoint.interval=10"), "llmc's key is checkpoint.every");
  EXPECT_EQ(advice("metrics.log_freq=10"), "llmc's key is metrics.every");
  EXPECT_TRUE(has_facts(advice("parallelism.tensor_parallel_degree=2"), {"no tensor", "parallel.shard"}));
  EXPECT_EQ(advice("parallelism.data_parallel_shard_degree=2"), "llmc's key is parallel.world_size");
  EXPECT_EQ(advice("parallelism.anything=2"), "llmc's key is parallel");
  EXPECT_EQ(advice("rope_type=llama3"), "llmc's key is model.rope_scaling.type");
  EXPECT_EQ(advice("model.rope_scaling.rope_type=llama3"), "llmc's key is model.rope_scaling.type");
  EXPECT_TRUE(has_facts(advice("training.nothing=1"), {"keys here", "name, ", "model"}));
  const LoadResult file = load_text(std::string(kBase) + "training:\n  steps: 5\n  nothing: 1\n", "base.yaml");
  ASSERT_EQ(file.diagnostics.size(), 2u);
  EXPECT_TRUE(has_facts(file.diagnostics[0].message, {"no key", "\"steps\"", "training"}));
  EXPECT_TRUE(has_facts(file.diagnostics[1].advice, {"at the top", "name, ", "model"}));
}

/// The key's correct place is reported whatever its value.
TEST(Suggestions, OfAKeyWithoutItsGroup) {
  for (const char* value : {"128", "100", "0"})
    EXPECT_EQ(advice(fmt::format("sequence_length={}", value)), "the key is batch.sequence_length") << value;
  for (const char* value : {"2", "3", "auto"})
    EXPECT_EQ(advice(fmt::format("micro_batch={}", value)), "the key is batch.micro_batch") << value;
}

TEST(Suggestions, OfWordsThatAreNoValues) {
  EXPECT_EQ(advice("model.hidden_size=1,024"), "write 1024");
  EXPECT_EQ(advice("optimizer.lr=0,001"), "write 0.001");
  EXPECT_EQ(advice("sampling.prompts=Hello, world"), "write 'sampling.prompts=[\"Hello, world\"]'");
  EXPECT_EQ(advice("sampling.prompts=it's"), "write 'sampling.prompts=[\"Once upon a time\"]'");
  EXPECT_EQ(advice("memory.budget=24"), "did you mean 24GiB?");
  EXPECT_EQ(advice("optimizer.betas=0.9"), "write 'optimizer.betas=[0.9, 0.95]'");
  EXPECT_TRUE(has_facts(advice("optimizer.lr=default"), {"write a value", "default", "0.0003"}));
  EXPECT_TRUE(has_facts(advice("optimizer.lr="), {"write a value", "default", "0.0003"}));
  EXPECT_TRUE(has_facts(advice("schedule.warmup_steps="), {"write a value", "default", "2 %", "without this key"}));
  EXPECT_TRUE(has_facts(advice("model.vocab_size="), {"write a value", "no default"}));
}

/// A section given one of its values, and elements of a list.
TEST(Suggestions, OfSectionsWithoutTheirKeys) {
  EXPECT_EQ(advice("precision=bf16"), "write precision.compute=bf16");
  EXPECT_EQ(advice("precision=bfloat16"), "write precision.compute=bf16");
  EXPECT_EQ(advice("schedule=cosine"), "write schedule.kind=cosine");
  EXPECT_EQ(advice("memory=24GiB"), "write memory.budget=24GiB");
  EXPECT_EQ(advice("checkpoint=500"), "write checkpoint.every=500");
  EXPECT_TRUE(has_facts(advice("batch=32"), {"write batch.sequence_length=...", "keys"}));
  EXPECT_EQ(advice("data.train=x-*.bin"), "write data.train.path=x-*.bin");
  EXPECT_EQ(advice("data.train={path: x.bin}"), "write data.train.path=x.bin");
  EXPECT_EQ(advice("data.train=[x.bin]"), "write data.train.path=x.bin");
  EXPECT_TRUE(has_facts(advice("data.train=[a.bin, b.bin]"), {"write data.train.path=tokens-*.bin", "pattern"}));
  EXPECT_EQ(advice("data.train[0].path=x"), "the key is data.train.path, without a number");
  EXPECT_EQ(advice("data.train.0.path=x"), "the key is data.train.path, without a number");
  EXPECT_TRUE(has_facts(advice("optimizer.betas[1]=0.9"), {"whole list", "optimizer.betas=[...]"}));
  EXPECT_EQ(advice("memory.recompute=attention"), "did you mean [attention]?");
  EXPECT_EQ(advice("memory.recompute=norms,swiglu"), "did you mean [norms, swiglu]?");
  EXPECT_TRUE(advice("memory.recompute=norms,attn").starts_with("write auto, none, full, ")) << "attn is no op";
  // The section's content in the file is kept: fp32 conflicts with its residual stream.
  const LoadResult kept =
      load_text(std::string(kBase) + "precision: {compute: bf16, residual: bf16}\n", "base.yaml", {"precision=fp32"});
  ASSERT_EQ(kept.diagnostics.size(), 1u);
  EXPECT_TRUE(has_facts(kept.diagnostics[0].advice, {"write precision.compute=...", "keys"}));
}

/// First attempts of a user who knows nanoGPT, modded-nanogpt or TRL; for unsupported keys the closest alternative is
/// named.
TEST(Synonyms, OfAFirstHour) {
  const std::pair<const char*, Facts> cases[] = {
      {"eval_every=1", "llmc's key is evaluation.every"},
      {"evaluation.eval_interval=1", "llmc's key is evaluation.every"},
      {"save_every=1", "llmc's key is checkpoint.every"},
      {"checkpoint.ckpt_every=1", "llmc's key is checkpoint.every"},
      {"save_steps=1", "llmc's key is checkpoint.every"},
      {"num_steps=1", "llmc's key is schedule.steps"},
      {"batch.size=8", {"batch.tokens", "sequences * batch.sequence_length"}},
      {"evaluation.batches=8", {"evaluation.sequences", "in sequences"}},
      {"sampling.max_tokens=8", "llmc's key is sampling.tokens"},
      {"checkpoint.dir=out", "`trainer --run DIR`"},
      {"logging.every=8", "llmc's key is metrics.every"},
      {"schedule.max_iters=1", "llmc's key is schedule.steps"},
      {"total_tokens=1e9", "llmc's key is schedule.tokens"},
      {"sampling.top_k=40", {"sampling.temperature", "sampling.top_p"}},
      {"top_p=0.9", "llmc's key is sampling.top_p"},
      {"init_from=scratch", {"init.from", "Hugging Face", "`trainer --resume DIR`"}},
      {"wandb_log=true",
       {"no service", "metrics.jsonl", "tensorboard/", "TensorBoard", "exporter/llmc_export.py", "W&B", "MLflow"}},
      {"model.hidden_dim=64", {"model.intermediate_size", "residual stream", "model.hidden_size"}},
      {"target.gpus=8", "llmc's key is parallel.world_size"},
      {"num_gpus=8", "llmc's key is parallel.world_size"}};
  for (const auto& [override, facts] : cases) EXPECT_TRUE(has_facts(advice(override), facts)) << override;
}

TEST(Synonyms, OfOtherFrameworks) {
  EXPECT_EQ(advice("model.layers=3"), "llmc's key is model.num_hidden_layers");
  EXPECT_EQ(advice("model.n_layer=3"), "llmc's key is model.num_hidden_layers");
  EXPECT_EQ(advice("num_kv_heads=3"), "llmc's key is model.num_key_value_heads");
  EXPECT_EQ(advice("optimizer.grad_clip=1"), "llmc's key is optimizer.clip_norm");
  EXPECT_EQ(advice("schedule.warmup=100"), "llmc's key is schedule.warmup_steps; in steps");
  EXPECT_EQ(advice("dtype=bf16"), "llmc's key is precision.compute");
  EXPECT_EQ(advice("lr_scheduler=cosine"), "llmc's key is schedule.kind");
  EXPECT_NE(advice("batch.gradient_accumulation_steps=8").find("batch.tokens"), std::string::npos);
  EXPECT_EQ(advice("target.kind=gpu"), "did you mean cuda?");
  EXPECT_TRUE(has_facts(
      advice("precision.linear=fp32"),
      {"keys here",
       "compute, residual, matmul, master, optimizer_state and fp8"}));  // not init.linear, which takes no fp32
  EXPECT_EQ(advice("precision.compute=bfloat16"), "did you mean bf16?");
  EXPECT_EQ(advice("memory.budget=rtx4090"), "did you mean rtx4090-24gb?");
  EXPECT_NE(advice("memory.budget=mi300").find("h100-80gb"), std::string::npos);
  const std::string several = advice("memory.budget=h100");
  EXPECT_NE(several.find(" or h100-80gb"), std::string::npos) << several;
  EXPECT_EQ(several.find("h200"), std::string::npos) << several;
}

}  // namespace
}  // namespace llmc::spec
