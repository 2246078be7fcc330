#include "compiler/spec/codes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace llmc::spec {

const std::vector<Code>& codes() {
  static const std::vector<Code> table = {
      {"E0101", "not YAML",
       "The text is not valid YAML, so no key was checked. Common causes are a tab or a changed indentation, a missing "
       "blank after a colon, an unclosed quote or bracket, and a value that begins with one of * & ! % @ ` and needs "
       "quotes.",
       "optimizer: {lr: 3e-4", "optimizer: {lr: 3e-4}"},
      {"E0102", "bytes that are not text",
       "A spec is strict UTF-8 without NUL and other control characters, so every tool reads the same text from it.",
       "a file saved as Latin-1 or UTF-16", "the same file saved as UTF-8"},
      {"E0103", "a spec that is too large",
       "A spec has at most 1 MiB, 20,000 keys and values, and lists and maps nested 32 deep. Typical specs have a few "
       "kilobytes. The limits bound the memory and time that a file from elsewhere can take.",
       "a token shard given in place of the spec", "llmc check specs/quickstart.yaml"},
      {"E0104", "anchors and aliases",
       "Anchors (&name) and aliases (*name) are not allowed in a spec: every value is written where it is used, and a "
       "small file cannot expand to a large one. A path that begins with * needs quotes.",
       "data:\n  tokenizer: *.model", "data:\n  tokenizer: \"*.model\""},
      {"E0105", "tags", "Tags (!!int, !name) are not allowed in a spec. The schema defines the type of each key.",
       "schedule:\n  steps: !!int 100", "schedule:\n  steps: 100"},
      {"E0106", "merge keys",
       "The merge key << is not allowed in a spec. `extends` merges maps over those of another file and keeps the "
       "origin of every value.",
       "<<: *defaults", "extends: base.yaml"},
      {"E0107", "a key that is set twice",
       "A map may have a key only once. Most YAML readers silently ignore one of the two.",
       "optimizer:\n  lr: 1e-3\n  lr: 3e-4", "optimizer:\n  lr: 3e-4"},
      {"E0108", "a second document",
       "A spec is one YAML document. Many readers ignore the text after a line of ---, so llmc rejects it.",
       "seed: 1\n---\nseed: 2", "seed: 1"},
      {"E0109", "a key that is not a word", "Keys are plain words. A list, a map or nothing cannot be a key.",
       "optimizer:\n  [lr, eps]: 1e-8", "optimizer:\n  lr: 1e-3\n  eps: 1e-8"},
      {"E0110", "a map was expected",
       "The spec itself and each of its groups are maps of `key: value` lines. An empty file, a list or a single value "
       "has no keys. A Hugging Face config.json has other keys: `llmc init --from` makes a spec of it.",
       "optimizer: adamw", "optimizer:\n  kind: adamw"},
      {"E0111", "the file cannot be read", "The file does not exist, is not a regular file, or may not be opened.",
       "extends: bass.yaml", "extends: base.yaml"},
      {"E0201", "an unknown key",
       "The schema has no such key. llmc ignores no key, because a misspelt one would silently train with the default. "
       "`llmc schema` and the manual list all keys; editors complete them from the schema.",
       "optimizer: {learning_rate: 3e-4}", "optimizer: {lr: 3e-4}"},
      {"E0202", "a required key is missing",
       "These keys have no default: name, data.train, and in model vocab_size, hidden_size, num_hidden_layers and "
       "num_attention_heads. All others have one; `llmc config` shows them.",
       "name: a\nmodel: {hidden_size: 256, num_hidden_layers: 6, num_attention_heads: 8}\ndata: {train: [{path: "
       "\"tokens-*.bin\"}]}",
       "name: a\nmodel: {vocab_size: 4096, hidden_size: 256, num_hidden_layers: 6, num_attention_heads: 8}\ndata: "
       "{train: [{path: \"tokens-*.bin\"}]}"},
      {"E0203", "a value of the wrong type",
       "Each key has one type. Booleans are true and false only (not yes, no, on, off); text in quotes is never a "
       "number.",
       "model: {tie_word_embeddings: yes}", "model: {tie_word_embeddings: true}"},
      {"E0204", "a malformed number",
       "Whole numbers are decimal, without leading zeros (YAML reads 010 as 8), exponents or a plus sign; `_` is "
       "allowed between digits, and K, M, G (powers of 1000) or Ki, Mi, Gi (powers of 1024) after them. Real numbers "
       "are digits, a point with digits, an exponent.",
       "schedule: {steps: 1e4}", "schedule: {steps: 10K}"},
      {"E0205", "a value out of range",
       "The number is valid, but not for this key. The message shows the range of the key.",
       "optimizer: {betas: [0.9, 1.0]}", "optimizer: {betas: [0.9, 0.95]}"},
      {"E0206", "not one of the choices", "The key takes one of a fixed set of values. The message lists them.",
       "precision: {compute: bfloat16}", "precision: {compute: bf16}"},
      {"E0207", "a list of the wrong length", "The key takes a list of a fixed number of values.",
       "optimizer: {betas: [0.9]}", "optimizer: {betas: [0.9, 0.95]}"},
      {"E0208", "a name that cannot be used",
       "The name of a run becomes part of file names. It is 1 to 64 lower-case letters, digits and hyphens, and begins "
       "with a letter.",
       "name: Llama 1B", "name: llama-1b"},
      {"E0209", "text that cannot be used",
       "A path has 1 to 4,096 bytes and no control characters. A prompt has at most 65,536 bytes, and no control "
       "characters except line feeds and tabs.",
       "data: {tokenizer: \"\"}", "data: {tokenizer: data/tokenizer.model}"},
      {"E0210", "a key without a value", "There is no value after the colon. Leave the key out to use its default.",
       "schedule:\n  steps:", "schedule:\n  steps: 1000"},
      {"E0301", "hidden_size and the number of heads",
       "Without head_dim, each head gets hidden_size / num_attention_heads columns, which must be a whole number. "
       "Choose sizes that divide, or set head_dim: then q has num_attention_heads * head_dim columns, whatever "
       "hidden_size is. transformers 5 does not load an exported Llama of such a shape, but it loads Qwen 3 models "
       "(qk_norm).",
       "model: {hidden_size: 2000, num_attention_heads: 12}", "model: {hidden_size: 2016, num_attention_heads: 12}"},
      {"E0302", "query heads and key/value heads",
       "In grouped-query attention each key/value head serves the same number of query heads, so num_key_value_heads "
       "divides num_attention_heads.",
       "model: {num_attention_heads: 32, num_key_value_heads: 6}",
       "model: {num_attention_heads: 32, num_key_value_heads: 8}"},
      {"E0303", "an odd head_dim", "RoPE rotates pairs (i, i + head_dim / 2), so head_dim is even.",
       "model: {head_dim: 63}", "model: {head_dim: 64}"},
      {"E0304", "a head_dim that CUDA attention does not support",
       "cuDNN's attention takes a head_dim that is a multiple of 8, up to 128, and up to 256 on Hopper; llmc's own "
       "kernels (target.attention: portable, and auto where cuDNN does not support the shape) take any even one up to "
       "256. The cpu target takes any even one.",
       "model: {head_dim: 100}\ntarget: {kind: cuda, attention: cudnn}",
       "model: {head_dim: 104}\ntarget: {kind: cuda, attention: cudnn}"},
      {"E0305", "a batch that is not a whole number of sequences",
       "batch.tokens is the number of tokens of one optimizer step. It is a multiple of sequence_length.",
       "batch: {sequence_length: 2048, tokens: 1M}", "batch: {sequence_length: 2048, tokens: 1Mi}"},
      {"E0306", "a batch that is not a whole number of micro-batches",
       "One optimizer step runs batch.tokens / (micro_batch * sequence_length) passes, which must be a whole number. "
       "`micro_batch: auto` chooses one that divides.",
       "batch: {sequence_length: 256, tokens: 2048, micro_batch: 3}",
       "batch: {sequence_length: 256, tokens: 2048, micro_batch: 4}"},
      {"E0307", "a loss chunk that does not divide",
       "The rows of logits of one pass, micro_batch * sequence_length, are processed in chunks of loss_chunk rows, all "
       "of the same size. With `micro_batch: auto` the chunk must divide some number of whole sequences of the batch. "
       "`loss_chunk: auto` chooses one.",
       "batch: {sequence_length: 256, micro_batch: 8}\nmemory: {loss_chunk: 1000}",
       "batch: {sequence_length: 256, micro_batch: 8}\nmemory: {loss_chunk: 1024}"},
      {"E0308", "a warm-up as long as the run",
       "The learning rate rises over schedule.warmup_steps and follows its schedule for the rest, so some steps must "
       "be left.",
       "schedule: {steps: 1000, warmup_steps: 1000}", "schedule: {steps: 1000, warmup_steps: 100}"},
      {"E0309", "a key that has no effect",
       "The key applies only with another value of a different key. It would have no effect here, and llmc ignores no "
       "key.",
       "schedule: {kind: cosine, decay_fraction: 0.2}", "schedule: {kind: wsd, decay_fraction: 0.2}"},
      {"E0310", "RoPE factors in the wrong order",
       "Llama 3's scaling does not change wavelengths below original_max_position_embeddings / high_freq_factor. It "
       "divides the frequencies of those above original_max_position_embeddings / low_freq_factor, and interpolates "
       "between the two. So high_freq_factor is the larger one. yarn does not change pairs with more than beta_fast "
       "rotations within that context, and divides the frequencies of those with less than beta_slow by factor. So "
       "beta_fast is the larger one.",
       "model: {rope_scaling: {type: llama3, low_freq_factor: 4, high_freq_factor: 1}}",
       "model: {rope_scaling: {type: llama3, low_freq_factor: 1, high_freq_factor: 4}}"},
      {"E0311", "an architecture of another target",
       "target.arch names the architecture that kernels are compiled for: with `kind: cpu` one instruction set as the "
       "compiler names it (native is this machine's), with `kind: cuda` one or more compute capabilities without the "
       "dot.",
       "target: {kind: cpu, arch: 90a}", "target: {kind: cuda, arch: [90a]}"},
      {"E0312", "a schedule longer than its steps",
       "wsd warms up over warmup_steps, keeps the learning rate constant, and decays it over the last decay_fraction "
       "of the steps. Warm-up and decay must fit in schedule.steps together.",
       "schedule: {kind: wsd, steps: 100, warmup_steps: 60, decay_fraction: 0.5}",
       "schedule: {kind: wsd, steps: 100, warmup_steps: 20, decay_fraction: 0.5}"},
      {"E0313", "a pass that is too large",
       "Rows are counted in 32 bits: micro_batch * sequence_length is below 2^31, on cuda also times "
       "num_attention_heads.",
       "batch: {sequence_length: 65536, micro_batch: 65536}", "batch: {sequence_length: 65536, micro_batch: 16}"},
      {"E0314", "recomputation of layers that do not exist",
       "`recompute: {every: n}` recomputes the layers 0, n, 2n, ...; n is at most num_hidden_layers. `{layers: {0-7: "
       "full}}` "
       "names layers from 0 to num_hidden_layers - 1.",
       "model: {num_hidden_layers: 6}\nmemory: {recompute: {every: 8}}",
       "model: {num_hidden_layers: 6}\nmemory: {recompute: {every: 2}}"},
      {"E0315", "checkpoints to keep that are never written",
       "A checkpoint is written every checkpoint.every steps, and those at multiples of keep_every are kept "
       "permanently. So keep_every is a multiple of every.",
       "checkpoint: {every: 300, keep_every: 1000}", "checkpoint: {every: 250, keep_every: 1000}"},
      {"E0316", "a bf16 residual stream in an fp32 or fp16 run",
       "With `compute: fp32` everything is fp32. A residual stream in bf16 is only for bf16 runs: it takes half the "
       "memory and rounds the stream after every layer. fp16 runs keep it in fp32, because its numbers may be larger "
       "than any in fp16.",
       "precision: {compute: fp32, residual: bf16}", "precision: {compute: bf16, residual: bf16}"},
      {"E0317", "prompts without a tokenizer",
       "Prompts are text that data.tokenizer encodes. Without a tokenizer they are token ids with blanks between them, "
       "and samples are printed as ids.",
       "sampling: {prompts: [\"Once upon\"]}", "sampling: {prompts: [\"17 4 256\"]}"},
      {"E0318", "fp32 or fp16 attention by cuDNN",
       "llmc uses cuDNN's attention in bf16. In fp32 and fp16 runs its own kernels compute attention, which "
       "`attention: "
       "auto` and `portable` select.",
       "precision: {compute: fp32}\ntarget: {kind: cuda, attention: cudnn}",
       "precision: {compute: fp32}\ntarget: {kind: cuda, attention: auto}"},
      {"E0319", "biases or norms' weights of q and k that are not aligned to 16 bytes",
       "The biases of q, k and v are in one vector, and CUDA kernels read each of them 16 bytes at a time. So with "
       "attention_bias, num_attention_heads * head_dim and num_key_value_heads * head_dim are multiples of 8, or of 4 "
       "with `compute: fp32`. The weights of norms with `qk_norm_over: width` are in one vector too, q's before k's: "
       "num_attention_heads * head_dim is such a multiple.",
       "model: {num_attention_heads: 6, head_dim: 10, attention_bias: true}\ntarget: {kind: cuda}",
       "model: {num_attention_heads: 6, head_dim: 16, attention_bias: true}\ntarget: {kind: cuda}"},
      {"E0321", "more ranks than micro-batches",
       "The micro-batches of a step are divided among the ranks, and each rank runs at least one: batch.tokens / "
       "(micro_batch * sequence_length) is at least parallel.world_size. `micro_batch: auto` chooses one with at least "
       "one micro-batch for every rank.",
       "batch: {sequence_length: 256, tokens: 2048, micro_batch: 8}\nparallel: {world_size: 2}",
       "batch: {sequence_length: 256, tokens: 2048, micro_batch: 4}\nparallel: {world_size: 2}"},
      {"E0322", "an audit that is impossible or redundant",
       "`audit.compute: forward` recomputes a step's loss in fp32 from the master weights. With `parallel.shard: "
       "parameters` no rank has all of these weights. With `precision.master: split` they are joined in the memory of "
       "the "
       "gradients, so that no rank has them with `parallel.shard: gradients` either. With `precision.compute: fp32` it "
       "would repeat what training computes. `logits` works in all cases.",
       "precision: {compute: fp32}\naudit: {compute: forward}", "precision: {compute: fp32}\naudit: {compute: logits}"},
      {"E0323", "a best checkpoint by an unknown validation set",
       "checkpoint.best names the validation set whose loss selects the best checkpoint: `validation` for that of "
       "data.validation.path, or the name of another one.",
       "data: {validation: {web: b.bin, code: c.bin}}\ncheckpoint: {best: cod}",
       "data: {validation: {web: b.bin, code: c.bin}}\ncheckpoint: {best: code}"},
      {"E0324", "the budget of another device",
       "A device named in memory.budget must have target.arch, because a trainer that is compiled for one arch does "
       "not run on another.",
       "memory: {budget: a100-80gb}\ntarget: {kind: cuda, arch: [90a]}",
       "memory: {budget: h100-80gb}\ntarget: {kind: cuda, arch: [90a]}"},
      {"E0325", "bf16x3 where it is not available",
       "With `matmul: bf16x3` each matrix product of an fp32 run is the sum of three bf16 products in AMX tiles. So it "
       "needs `compute: fp32`, `kind: cpu`, and a target.arch with AMX: sapphirerapids. `native` is checked when it is "
       "resolved to the machine's own arch.",
       "precision: {compute: bf16, matmul: bf16x3}\ntarget: {arch: sapphirerapids}",
       "precision: {compute: fp32, matmul: bf16x3}\ntarget: {arch: sapphirerapids}"},
      {"E0326", "layer types that do not match the layers",
       "model.layer_types has a type for each layer, or for the first ones, and repeats over the others. So it has at "
       "most as many types as there are layers. At least one layer is of type sliding_attention, because "
       "model.sliding_window would otherwise have no effect.",
       "model: {sliding_window: 1024, layer_types: [full_attention]}",
       "model: {sliding_window: 1024, layer_types: [sliding_attention, full_attention]}"},
      {"E0327", "fp8 products where they do not exist",
       "With `matmul: fp8` the operands of products are e4m3 codes with a scale for each row. It replaces products in "
       "bf16, so it needs `compute: bf16` and at least one layer that precision.fp8 does not leave in bf16. cuBLASLt "
       "has such products on arch 90 and 90a alone. Arch 89 and those from 100 on have products with one scale a "
       "tensor: `fp8_tensor`. A cpu and arch 80, 86 and 87 have no fp8 at all: they compute the same numbers in bf16. "
       "`mxfp8` has a scale for each 32 elements, which products of arch 100 and 103 take. llmc plans such runs. It "
       "does not compile them until a device has run such products: write `fp8_tensor`, or `target.kind: cpu`.",
       "precision: {matmul: fp8}\ntarget: {kind: cuda, arch: [100]}",
       "precision: {matmul: fp8_tensor}\ntarget: {kind: cuda, arch: [100]}"},
      {"E0328", "widths of fp8 products",
       "fp8 products read 16 codes at a time, so hidden_size, intermediate_size, the columns of q, and those of q, k "
       "and v together are multiples of 16. With `fp8_full` and `fp8_tensor` so are the tokens of a micro-batch, over "
       "which weight gradients are sums, and with precision.fp8.head so is vocab_size; with `micro_batch: auto` those "
       "of a sequence are. With `mxfp8`, whose scales are of 32 elements, all these are multiples of 32. That holds "
       "for every target, so that a spec that trains on a laptop trains on a cluster.",
       "model: {intermediate_size: 1000}\nprecision: {matmul: fp8}",
       "model: {intermediate_size: 1008}\nprecision: {matmul: fp8}"},
      {"E0329", "tf32 products where they do not exist",
       "With `matmul: tf32` the tensor cores of a GPU multiply fp32 matrices, of whose mantissas they read 10 bits. So "
       "it needs `compute: fp32` and `kind: cuda`.",
       "precision: {compute: bf16, matmul: tf32}\ntarget: {kind: cuda}",
       "precision: {compute: fp32, matmul: tf32}\ntarget: {kind: cuda}"},
      {"E0330", "8-bit state of another optimizer",
       "With `optimizer_state: int8` the moments of AdamW are kept in 8 bits. Other optimizers keep their state in "
       "fp32.",
       "precision: {optimizer_state: int8}\noptimizer: {kind: lion}",
       "precision: {optimizer_state: int8}\noptimizer: {kind: adamw}"},
      {"E0331", "masters split without bf16 copies",
       "With `master: split` a master weight is kept as the bf16 copy that products read, and the bits that this "
       "lacks. So "
       "it needs `compute: bf16`.",
       "precision: {compute: fp32, master: split}", "precision: {compute: bf16, master: split}"},
      {"E0332", "layers without RoPE that the model does not have",
       "model.no_rope_layers names layers without RoPE: an integer N for every N-th one, or a list of layers, which "
       "count from 0. It names layers of the model, and leaves some with RoPE. transformers' list of the same name has "
       "a flag for each layer instead, of which 1 is a layer with RoPE: `[1, 1, 1, 0]` is `[3]` here.",
       "model: {num_hidden_layers: 6, no_rope_layers: [6]}", "model: {num_hidden_layers: 6, no_rope_layers: [5]}"},
      {"E0333", "a bias in what residual_multiplier scales",
       "model.residual_multiplier is a factor of the products of o_proj and down_proj, to which llmc adds a bias "
       "unscaled. transformers scales the bias too. So these projections have none.",
       "model: {residual_multiplier: 0.22, mlp_bias: true}", "model: {residual_multiplier: 0.22, mlp_bias: false}"},
      {"E0334", "a factor of what is normalised",
       "With `norm_place: post` or `sandwich` the results of attention and of the MLP are normalised before they are "
       "added to the residual stream. A norm removes any factor, so residual_multiplier would have no effect.",
       "model: {residual_multiplier: 0.22, norm_place: post}", "model: {norm_place: post}"},
      {"E0335", "a word of memory.recompute without a tensor",
       "`down` is the result of down_proj. The backward pass needs it only where a norm reads it, with `norm_place: "
       "post` "
       "or `sandwich`; otherwise no layer keeps it.",
       "memory: {recompute: [norms, down]}", "memory: {recompute: [norms]}"},
      {"E0336", "a word of memory.recompute for another MLP",
       "An MLP with a gate has `gate_up`, the results of gate_proj and up_proj, and `swiglu`, the product of one and "
       "the "
       "other's activation. With `mlp_gated: false` it has `up`, the result of up_proj, and `activation`, what "
       "down_proj reads.",
       "model: {mlp_gated: false}\nmemory: {recompute: [gate_up, swiglu]}",
       "model: {mlp_gated: false}\nmemory: {recompute: [up, activation]}"},
      {"E0340", "a source without a name in a mixture",
       "data.train is a list of one source, or a map of sources that each have a name. Weights, metrics and --allow "
       "name a source by it.",
       "extends: base.yaml\ndata: {train: {path: \"a-*.bin\", code: {path: \"code-*.bin\", weight: 1}}}",
       "extends: base.yaml\ndata: {train: {web: {path: \"a-*.bin\", weight: 4}, code: {path: \"code-*.bin\", weight: "
       "1}}}"},
      {"E0341", "a source without a weight",
       "With several sources, each has a weight. A source's share of the samples is its weight over the sum of all, so "
       "0.5, 0.2, 0.2 and 0.1 are the same mixture as 5, 2, 2 and 1.",
       "extends: base.yaml\ndata: {train: {web: {path: \"web-*.bin\", weight: 0.9}, code: {path: \"code-*.bin\"}}}",
       "extends: base.yaml\ndata: {train: {web: {path: \"web-*.bin\", weight: 0.9}, code: {path: \"code-*.bin\", "
       "weight: 0.1}}}"},
      {"E0345", "a separator that is no token",
       "data.documents.separator is the token that ends each document. Token ids are below model.vocab_size.",
       "model: {vocab_size: 50257}\ndata: {documents: {mask: true, separator: 50257}}",
       "model: {vocab_size: 50257}\ndata: {documents: {mask: true, separator: 50256}}"},
      {"E0346", "masks of documents in cuDNN",
       "cuDNN masks documents with sequences of variable length, whose shapes follow the data and whose backward pass "
       "is not deterministic without a large workspace. llmc's own kernels mask documents at constant shapes.",
       "target: {kind: cuda, attention: cudnn}\ndata: {documents: {mask: true}}",
       "target: {kind: cuda, attention: auto}\ndata: {documents: {mask: true}}"},
      {"E0347", "positions that repeat without a mask",
       "With `reset_positions` two tokens of one sample have the same position if they are in two documents. Only the "
       "mask "
       "of documents keeps them apart.",
       "data: {documents: {reset_positions: true}}", "data: {documents: {mask: true, reset_positions: true}}"},
      {"E0348", "a soft cap in cuDNN",
       "cuDNN has no soft cap of attention's scores together with a causal mask. llmc's own kernels have one.",
       "model: {attn_logit_softcapping: 50}\ntarget: {kind: cuda, attention: cudnn}",
       "model: {attn_logit_softcapping: 50}\ntarget: {kind: cuda, attention: auto}"},
      {"E0349", "two lengths of a run",
       "schedule.steps follows from schedule.tokens, the model's parameters and batch.tokens, so a file gives one of "
       "the two. A value on the command line, or of a file that extends another, takes the place of the other's.",
       "schedule: {steps: 1000, tokens: 20x}", "schedule: {tokens: 20x}"},
      {"E0350", "phases that are not a list",
       "`phases` is a list of two partial specs or more, each with the step that ends it. Keys of the whole run, "
       "such as the schedule, are not repeated in a phase.",
       "schedule: {steps: 100}\nphases: [{until: 90%}, {batch: {sequence_length: 512}}]",
       "schedule: {steps: 100}\nphases: [{until: 90%}, {until: 100%, batch: {sequence_length: 512}}]"},
      {"E0351", "borders of phases", "Each phase ends after the one before, and the last one with the run.",
       "schedule: {steps: 100}\nphases: [{until: 90%}, {until: 95%}]",
       "schedule: {steps: 100}\nphases: [{until: 90%}, {until: 100%}]"},
      {"E0352", "a key that stays for all phases",
       "Phases share the weights, the optimizer's state and the devices, and their steps are those of one schedule.",
       "schedule: {steps: 100}\nphases: [{until: 90%}, {until: 100%, model: {hidden_size: 512}}]",
       "schedule: {steps: 100}\nphases: [{until: 90%}, {until: 100%, model: {rope_theta: 1.0e6}}]"},
      {"E0360", "a norm over the width of q after RoPE",
       "RoPE rotates each head. A norm after it is of one head, as in nanochat; a norm over all heads of q, or of k, "
       "stands before it, as in OLMo 2.",
       "model: {qk_norm: true, qk_norm_over: width, qk_norm_place: after_rope}",
       "model: {qk_norm: true, qk_norm_place: after_rope}"},
      {"E0361", "RoPE over an odd part of a head",
       "RoPE rotates pairs of elements, so that partial_rotary_factor * head_dim must be an even number.",
       "model: {head_dim: 20, partial_rotary_factor: 0.25}", "model: {head_dim: 20, partial_rotary_factor: 0.2}"},
      {"E0362", "a factor of q that a norm removes",
       "llama_4_scaling_beta multiplies q after RoPE by a factor of its position. A norm after RoPE "
       "cancels that factor.",
       "model: {qk_norm: true, qk_norm_place: after_rope, rope_scaling: {type: yarn, llama_4_scaling_beta: 0.1}}",
       "model: {qk_norm: true, rope_scaling: {type: yarn, llama_4_scaling_beta: 0.1}}"},
      {"E0363", "fp16 on a CPU", "`compute: fp16` runs on GPUs alone. For CPUs llmc has products in fp32 and bf16.",
       "precision: {compute: fp16}\ntarget: {kind: cpu}", "precision: {compute: bf16}\ntarget: {kind: cpu}"},
      {"E0401", "files that extend each other", "A file cannot extend itself, directly or through other files.",
       "extends: this.yaml", "extends: base.yaml"},
      {"E0402", "a chain of extends that is too long", "A chain of `extends` has at most 8 files.",
       "nine generations of base files", "one base file, and a few differences"},
      {"E0403", "extends takes one relative path",
       "`extends` names one file, relative to the file that it is written in. It cannot be overridden on the command "
       "line.",
       "extends: [a.yaml, base.yaml]", "extends: base.yaml"},
      {"E0411", "an override that is not key.path=value",
       "An override replaces one value: the path of the key with dots, an equals sign, and the value as in the file, "
       "on one line. Quote it for the shell if it has blanks or brackets.",
       "llmc plan spec.yaml --steps 100", "llmc plan spec.yaml schedule.steps=100 'optimizer.betas=[0.9, 0.95]'"},
      {"E0412", "one key overridden twice", "The command line sets one key twice.", "llmc plan spec.yaml seed=1 seed=2",
       "llmc plan spec.yaml seed=2"},
  };
  return table;
}

namespace {

/// "wrong:  " and the lines of an example, each below the other.
std::string indented(const char* heading, const std::string& example) {
  std::string text = fmt::format("    {:8}", heading);
  for (char c : example) {
    text += c;
    if (c == '\n') text += fmt::format("{:12}", "");
  }
  return text + "\n";
}

}  // namespace

std::optional<std::string> explain(std::string_view code) {
  const auto same = [](char a, char b) { return std::toupper(static_cast<unsigned char>(a)) == b; };
  for (const Code& entry : codes())
    if (const std::string_view known = entry.code;
        std::equal(code.begin(), code.end(), known.begin(), known.end(), same))
      return fmt::format("{}: {}\n\n{}\n\n{}{}", entry.code, entry.title, entry.text, indented("wrong:", entry.wrong),
                         indented("right:", entry.right));
  return {};
}

std::string explain_all() {
  std::string text;
  for (const Code& entry : codes()) text += fmt::format("{}  {}\n", entry.code, entry.title);
  return text;
}

}  // namespace llmc::spec
