#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "compiler/spec/documentation.h"

namespace llmc::spec {
std::string yaml_path(const std::string& path) {
  const bool plain = std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) || c == '/' || c == '.' || c == '-' || c == '_' || c == '*';
  });
  return plain ? path : nlohmann::json(path).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string data_section(const NewData& data) {
  const auto in_folder = [&](const char* file) { return yaml_path(data.folder + "/" + file); };
  if (data.command.empty())
    return fmt::format(
        "data:                           # relative to this file: token shards for this model, made as in\n"
        "                                # docs/how-to/data-from-hugging-face.md\n"
        "{}  train:\n    - path: {}\n  validation:\n    - path: {}\n",
        data.tokenizer.empty()
            ? ""
            : fmt::format("  tokenizer: {}  # decodes samples; prompts are token ids\n", yaml_path(data.tokenizer)),
        in_folder("train-*.bin"), in_folder("val-*.bin"));
  return fmt::format(
      "# {}\n"
      "data:                           # relative to this file\n"
      "  tokenizer: {}\n  train:\n    - path: {}\n  validation:\n    - path: {}\n",
      data.command, in_folder(data.made_tokenizer.c_str()), in_folder("train-*.bin"), in_folder("val-*.bin"));
}

std::string sample_spec(const std::string& name, const NewData& data) {
  return fmt::format(
      R"(# One model and one training run. `llmc check` reports errors, `llmc config` prints every key with its default,
# `llmc plan` predicts memory and time, and `llmc run` trains.
name: {:<25} # names the build and run folders

model:                          # the names are those of Hugging Face's config.json
  vocab_size: 4096              # of the tokenizer
  hidden_size: 256
  num_hidden_layers: 6          # decoder layers
  num_attention_heads: 8
  num_key_value_heads: 4        # grouped-query attention
  intermediate_size: 768        # SwiGLU
  rope_theta: 10000
  tie_word_embeddings: true

precision:
  compute: fp32                 # or bf16; master weights and sums are always fp32

batch:
  sequence_length: 256
  tokens: 2048                  # of one optimizer step
  micro_batch: auto             # sequences of one pass: the fastest that fits

memory:
  budget: 2GiB

optimizer:
  lr: 1.0e-3
  weight_decay: 0.1

schedule:
  kind: cosine
  steps: 1000
  warmup_steps: 50

{}
evaluation:
  every: 100
  sequences: 64                 # of one evaluation

sampling:
  every: 250
  prompts: ["def main():\n"]
  tokens: 60                    # of one sample

checkpoint:
  every: 250                    # steps

target:
  kind: cpu                     # or cuda with arch: [90a]
)",
      name, data_section(data));
}

}  // namespace llmc::spec
