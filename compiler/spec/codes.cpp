#include "compiler/spec/codes.h"

#include <fmt/format.h>

namespace llmc::spec {

const std::vector<Code>& codes() {
  static const std::vector<Code> table = {
      {"E0101", "not YAML",
       "The text cannot be read as YAML at all, so nothing in it was checked. Common causes are a tab or a changed "
       "indentation, a "
       "missing blank after a colon, an unclosed quote or bracket, and a value that begins with one of * & ! % @ ` and "
       "needs quotes.",
       "wrong:  lr:3e-4\nright:  lr: 3e-4"},
      {"E0102", "bytes that are not text",
       "A spec is strict UTF-8 without NUL and other control characters, so that every tool reads the same text from "
       "it.",
       "wrong:  a file saved as Latin-1 or UTF-16\nright:  the same file saved as UTF-8"},
      {"E0103", "larger than a spec may be",
       "A spec has at most 1 MiB, 20,000 keys and values, and lists and maps nested 32 deep. Real ones are a few "
       "kilobytes; these limits "
       "bound memory and time for files that came from somewhere else.",
       "wrong:  a token shard given in place of the spec\nright:  llmc check specs/quickstart.yaml"},
      {"E0104", "anchors and aliases",
       "Anchors (&name) and aliases (*name) are not part of a spec: every value stands where it is read, and small "
       "files can not expand "
       "to large ones. A path that begins with * needs quotes.",
       "wrong:  path: *.bin\nright:  path: \"*.bin\""},
      {"E0105", "tags", "Tags (!!int, !name) are not part of a spec. The schema says what type each key has.",
       "wrong:  steps: !!int 100\nright:  steps: 100"},
      {"E0106", "merge keys",
       "The merge key << is not part of a spec. `extends` merges maps over those of another file, with the origin of "
       "every value kept.",
       "wrong:  <<: *defaults\nright:  extends: defaults.yaml"},
      {"E0107", "a key given twice",
       "One map may hold a key once. Most YAML readers let one of the two win in silence.",
       "wrong:  lr: 1e-3\n        lr: 3e-4\nright:  lr: 3e-4"},
      {"E0108", "a second document",
       "A spec is one YAML document. What stands after a line of --- would be ignored by many readers, so it is "
       "refused.",
       "wrong:  two runs in one file, separated by ---\nright:  two files, the second with `extends: first.yaml`"},
      {"E0109", "a key that is not a word", "Keys are plain words. A list, a map or nothing cannot be a key.",
       "wrong:  [lr, eps]: 1e-8\nright:  lr: 1e-3\n        eps: 1e-8"},
      {"E0110", "a map was expected",
       "The spec itself and each of its groups are maps of `key: value` lines. An empty file, a list or a single value "
       "has no keys.",
       "wrong:  model: llama\nright:  model:\n          vocab_size: 4096"},
      {"E0111", "the file cannot be read", "The file does not exist, is not a regular file, or may not be opened.",
       "wrong:  llmc check spec.yml\nright:  llmc check specs/quickstart.yaml"},
      {"E0201", "an unknown key",
       "The schema has no such key, and llmc ignores nothing: a misspelt key would silently train with the default. "
       "`llmc schema` and the "
       "manual list all of them; editors complete them from the schema.",
       "wrong:  optimizer: {learning_rate: 3e-4}\nright:  optimizer: {lr: 3e-4}"},
      {"E0202", "a required key is missing",
       "These keys have no sensible default: name, data.train, and of the model vocab_size, hidden_size, "
       "num_hidden_layers and "
       "num_attention_heads. All others have one; `llmc config` shows them.",
       "wrong:  model: {hidden_size: 256, num_hidden_layers: 6, num_attention_heads: 8}\n"
       "right:  model: {vocab_size: 4096, hidden_size: 256, num_hidden_layers: 6, num_attention_heads: 8}"},
      {"E0203", "a value of another type",
       "Each key has one type. Booleans are true and false only (not yes, no, on, off); text in quotes is never a "
       "number.",
       "wrong:  tie_word_embeddings: yes\nright:  tie_word_embeddings: true"},
      {"E0204", "a malformed number",
       "Whole numbers are decimal, without leading zeros (YAML reads 010 as 8), exponents or a plus sign; `_` may "
       "stand between digits, and "
       "K, M, G (powers of 1000), Ki, Mi, Gi (powers of 1024) after them. Real numbers are digits, a point with "
       "digits, an exponent.",
       "wrong:  steps: 1e4\nright:  steps: 10_000 or 10K"},
      {"E0205", "a value out of range",
       "The number can be read, but no run can use it. The message says what the key allows.",
       "wrong:  betas: [0.9, 1.0]\nright:  betas: [0.9, 0.95]"},
      {"E0206", "not one of the choices",
       "The key takes one of a few words, and this is none of them. The message lists them.",
       "wrong:  compute: bfloat16\nright:  compute: bf16"},
      {"E0207", "a list of the wrong length", "The key takes a list of a fixed number of values.",
       "wrong:  betas: [0.9]\nright:  betas: [0.9, 0.95]"},
      {"E0208", "a name that cannot be used",
       "The name of a run becomes part of file names. It is 1 to 64 lower-case letters, digits and hyphens, and begins "
       "with a letter.",
       "wrong:  name: Llama 1B\nright:  name: llama-1b"},
      {"E0209", "text that cannot be used",
       "A path has 1 to 4,096 bytes and no control characters. A prompt has at most 65,536 bytes, and of the control "
       "characters only line "
       "feeds and tabs.",
       "wrong:  tokenizer: \"\"\nright:  tokenizer: data/tokenizer.model"},
      {"E0210", "a key without a value", "Nothing stands after the colon. Leave the key out to get its default.",
       "wrong:  steps:\nright:  steps: 1000"},
      {"E0301", "hidden_size and the number of heads",
       "Without head_dim, each head gets hidden_size / num_attention_heads columns, which must be a whole number. "
       "Choose sizes that divide, "
       "or set head_dim: then q has num_attention_heads * head_dim columns, whatever hidden_size is.",
       "wrong:  hidden_size: 2000\n        num_attention_heads: 12\nright:  hidden_size: 2004\n        "
       "num_attention_heads: 12"},
      {"E0302", "query heads and key/value heads",
       "In grouped-query attention each key/value head serves the same number of query heads, so num_key_value_heads "
       "divides "
       "num_attention_heads.",
       "wrong:  num_attention_heads: 32\n        num_key_value_heads: 6\nright:  num_attention_heads: 32\n        "
       "num_key_value_heads: 8"},
      {"E0303", "an odd head_dim", "RoPE rotates pairs (i, i + head_dim / 2), so head_dim is even.",
       "wrong:  head_dim: 63\nright:  head_dim: 64"},
      {"E0304", "a head_dim that CUDA attention does not have",
       "cuDNN's attention takes a head_dim that is a multiple of 8, up to 128, and up to 256 from sm_90 on; llmc's own "
       "kernels (target.attention: portable, and auto where cuDNN does not have the shape) take any even one up to 256. "
       "The cpu target takes any even one.",
       "wrong:  head_dim: 100\n        target: {kind: cuda, attention: cudnn}\n"
       "right:  head_dim: 104\n        target: {kind: cuda, attention: cudnn}"},
      {"E0305", "a batch that is not whole sequences",
       "batch.tokens is the number of tokens of one optimizer step. It is made of whole sequences.",
       "wrong:  sequence_length: 2048\n        tokens: 1M\nright:  sequence_length: 2048\n        tokens: 1Mi"},
      {"E0306", "a batch that is not whole micro-batches",
       "One optimizer step runs batch.tokens / (micro_batch * sequence_length) passes, which must be a whole number. "
       "`micro_batch: auto` "
       "chooses one that divides.",
       "wrong:  sequence_length: 256\n        tokens: 2048\n        micro_batch: 3\n"
       "right:  sequence_length: 256\n        tokens: 2048\n        micro_batch: 4"},
      {"E0307", "a loss chunk that does not divide",
       "The rows of logits of one pass, micro_batch * sequence_length, are worked off in chunks of loss_chunk rows, "
       "all of one size. With "
       "`micro_batch: auto` the chunk must divide some number of whole sequences of the batch. `loss_chunk: auto` "
       "chooses one.",
       "wrong:  sequence_length: 256\n        micro_batch: 8\n        loss_chunk: 1000\n"
       "right:  sequence_length: 256\n        micro_batch: 8\n        loss_chunk: 1024"},
      {"E0308", "a warm-up as long as the run",
       "The learning rate rises over schedule.warmup_steps and follows its schedule for the rest, so some steps must "
       "be left.",
       "wrong:  steps: 1000\n        warmup_steps: 1000\nright:  steps: 1000\n        warmup_steps: 100"},
      {"E0309", "a key that would not be read",
       "The key belongs to a choice that this spec does not make. It would have no effect, and llmc ignores nothing.",
       "wrong:  schedule: {kind: cosine, decay_fraction: 0.2}\nright:  schedule: {kind: wsd, decay_fraction: 0.2}"},
      {"E0310", "RoPE factors that do not order",
       "Llama 3's scaling leaves wavelengths below original_max_position_embeddings / high_freq_factor as they are, "
       "and divides the "
       "frequencies of those above original_max_position_embeddings / low_freq_factor; between them it interpolates. "
       "So high_freq_factor "
       "is the larger one.",
       "wrong:  {type: llama3, low_freq_factor: 4, high_freq_factor: 1}\nright:  {type: llama3, low_freq_factor: 1, "
       "high_freq_factor: 4}"},
      {"E0311", "an architecture of another target",
       "target.arch names what kernels are compiled for: with `kind: cpu` one instruction set as the compiler names it "
       "(native is this "
       "machine's), with `kind: cuda` one or more compute capabilities without the dot.",
       "wrong:  target: {kind: cpu, arch: 90a}\nright:  target: {kind: cuda, arch: [90a]}"},
      {"E0312", "a schedule longer than its steps",
       "wsd warms up over warmup_steps, holds the learning rate, and lets it fall over the last decay_fraction of the "
       "steps. The two parts "
       "must fit into schedule.steps together.",
       "wrong:  {kind: wsd, steps: 100, warmup_steps: 60, decay_fraction: 0.5}\n"
       "right:  {kind: wsd, steps: 100, warmup_steps: 20, decay_fraction: 0.5}"},
      {"E0313", "a pass that is too large", "Rows are counted in 32 bits: micro_batch * sequence_length is below 2^31.",
       "wrong:  micro_batch: 65536\n        sequence_length: 65536\nright:  micro_batch: 16\n        sequence_length: "
       "65536"},
      {"E0314", "recomputing every n-th of fewer layers",
       "`recompute: {every: n}` recomputes the layers 0, n, 2n, ...; n is at most num_hidden_layers.",
       "wrong:  num_hidden_layers: 6\n        recompute: {every: 8}\nright:  num_hidden_layers: 6\n        recompute: "
       "{every: 2}"},
      {"E0315", "checkpoints to keep that are never made",
       "A checkpoint is made every checkpoint.every steps, and those at multiples of keep_every are kept for good; so "
       "keep_every is a "
       "multiple of every.",
       "wrong:  {every: 300, keep_every: 1000}\nright:  {every: 250, keep_every: 1000}"},
      {"E0316", "a residual stream that is rougher than what it is made of",
       "With `compute: fp32` everything is fp32. A residual stream in bf16 is a choice of bf16 runs: it takes half the "
       "memory and rounds the stream after every layer.",
       "wrong:  precision: {compute: fp32, residual: bf16}\nright:  precision: {compute: bf16, residual: bf16}"},
      {"E0317", "prompts that nothing can read",
       "Prompts are text that data.tokenizer turns into tokens. Without a tokenizer they are token ids with blanks between "
       "them, and samples are printed as ids.",
       "wrong:  sampling: {prompts: [\"Once upon\"]}\nright:  sampling: {prompts: [\"17 4 256\"]}"},
      {"E0401", "files that extend each other", "A file cannot extend itself, directly or through others.",
       "wrong:  a.yaml: `extends: b.yaml`, b.yaml: `extends: a.yaml`\nright:  a.yaml: `extends: base.yaml`, b.yaml: "
       "`extends: base.yaml`"},
      {"E0402", "a chain of extends that is too long", "A spec extends at most 8 files, one through the other.",
       "wrong:  nine generations of base files\nright:  one base file, and a few differences"},
      {"E0403", "extends takes one relative path",
       "`extends` names one file, relative to the file it stands in, and stands in a file: it cannot be overridden on "
       "the command line.",
       "wrong:  extends: [a.yaml, b.yaml]\nright:  extends: base.yaml"},
      {"E0411", "an override that is not key.path=value",
       "An override replaces one value: the path of the key with dots, an equals sign, and the value as it would stand "
       "in the file, on one "
       "line. Quote it for the shell when it has blanks or brackets.",
       "wrong:  llmc plan spec.yaml --steps 100\nright:  llmc plan spec.yaml schedule.steps=100 'optimizer.betas=[0.9, "
       "0.95]'"},
      {"E0412", "one key overridden twice", "The command line says two things about one key.",
       "wrong:  llmc plan spec.yaml seed=1 seed=2\nright:  llmc plan spec.yaml seed=2"},
  };
  return table;
}

std::optional<std::string> explain(std::string_view code) {
  for (const Code& entry : codes())
    if (code == entry.code) {
      std::string text = fmt::format("{}: {}\n\n{}\n\n", entry.code, entry.title, entry.text), line;
      for (const char* c = entry.example;; ++c) {
        if (*c == '\n' || *c == 0) {
          text += "    " + line + "\n";
          line.clear();
          if (*c == 0) return text;
        } else {
          line += *c;
        }
      }
    }
  return {};
}

}  // namespace llmc::spec
