#include "compiler/spec/documentation.h"

namespace llmc::spec {

std::string sample_spec() {
  return R"(# One model and one training run. `llmc check` tells what is wrong, `llmc config` prints every key with its default,
# `llmc plan` what it will cost, and `llmc run` trains.
name: my-run                    # names the build and run folders

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
  compute: fp32                 # or bf16; master weights and sums are fp32, always

batch:
  sequence_length: 256
  tokens: 2048                  # of one optimizer step
  micro_batch: auto             # sequences of one pass: the largest that fits

memory:
  budget: 2GiB

optimizer:
  lr: 1.0e-3
  weight_decay: 0.1

schedule:
  kind: cosine
  steps: 1000
  warmup_steps: 50

# llmc data build --from FOLDER --vocab-size 4096 -o data/my-run
data:                           # relative to this file
  tokenizer: data/my-run/tokenizer.model
  train:
    - path: data/my-run/train-*.bin
  validation:
    - path: data/my-run/val-*.bin

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
)";
}

}  // namespace llmc::spec
