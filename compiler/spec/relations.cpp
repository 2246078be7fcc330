#include "compiler/spec/relations.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <optional>
#include <sstream>
#include <string>

#include "compiler/spec/scalars.h"
#include "compiler/spec/targets.h"

namespace llmc::spec {
namespace {

std::string leaf(const std::string& path) { return path.substr(path.rfind('.') + 1); }

/// The multiples of `step` next to `value`, as text: "1992 or 2004"; only the upper one when the lower is 0.
std::string near_multiples(std::int64_t value, std::int64_t step) {
  const std::int64_t lower = value / step * step;
  std::int64_t upper = 0;
  if (__builtin_add_overflow(lower, step, &upper)) return fmt::format("{}", lower);
  return lower > 0 ? fmt::format("{} or {}", lower, upper) : fmt::format("{}", upper);
}

/// The divisors of `number` next to `value` below and above: "10 or 16".
std::string near_divisors(std::int64_t number, std::int64_t value) {
  std::int64_t below = 0, above = 0;
  for (std::int64_t d = 1; d * d <= number; ++d) {
    if (number % d) continue;
    for (std::int64_t divisor : {d, number / d}) {
      if (divisor <= value) below = std::max(below, divisor);
      if (divisor >= value && (above == 0 || divisor < above)) above = divisor;
    }
  }
  if (below == 0) return fmt::format("{}", above);
  return above == 0 || above == below ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

/// Whether a prompt is a list of integers of 32 bits with blanks between them, as runtime/train/sampling.cpp reads it.
bool token_ids(const std::string& prompt) {
  std::istringstream words(prompt);
  for (std::string word; std::getline(words, word, ' ');) {
    const std::optional<std::int64_t> id = parse_integer(word).value;
    if (!word.empty() && (!id || *id < 0 || *id > std::numeric_limits<std::int32_t>::max())) return false;
  }
  return true;
}

class Relations {
 public:
  Relations(const Bound& bound, std::vector<Diagnostic>& diagnostics)
      : bound_(bound), spec_(bound.spec), diagnostics_(diagnostics) {}

  void heads() {
    const Model& m = spec_.model;
    if (usable({"model.hidden_size", "model.num_attention_heads"}) && !given("model.head_dim") &&
        m.hidden_size % m.num_attention_heads) {
      fail("E0301",
           fmt::format("hidden_size {} is not divisible by num_attention_heads {}", m.hidden_size,
                       m.num_attention_heads),
           fmt::format("write hidden_size: {}, or num_attention_heads: {}, or set head_dim",
                       near_multiples(m.hidden_size, m.num_attention_heads),
                       near_divisors(m.hidden_size, m.num_attention_heads)),
           {"model.hidden_size", "model.num_attention_heads"});
      return;
    }
    if (!usable({"model.head_dim"})) return;
    if (m.head_dim % 2) {
      const std::string advice = "write head_dim: " + near_multiples(m.head_dim, 2);
      if (given("model.head_dim"))
        fail("E0303", fmt::format("head_dim {} is odd, and RoPE rotates pairs", m.head_dim), advice,
             {"model.head_dim"});
      else
        fail("E0303", fmt::format("hidden_size / num_attention_heads = {} is odd, and RoPE rotates pairs", m.head_dim),
             advice, {"model.hidden_size", "model.num_attention_heads"});
    } else if (usable({"target.kind", "target.arch"}) && spec_.target.kind == TargetKind::cuda) {
      if (!usable({"target.attention"})) return;
      if (spec_.target.attention != AttentionKind::cudnn) {
        if (m.head_dim > 256)
          fail("E0304", fmt::format("head_dim {} is above 256, the widest for attention on cuda", m.head_dim),
               "write head_dim: 256", {"model.head_dim", "target.kind"});
        return;
      }
      const auto& arch = spec_.target.arch;
      const bool old =
          std::any_of(arch.begin(), arch.end(), [](const std::string& a) { return a.size() == 2 && a < "90"; });
      const std::int64_t most = old ? 128 : 256;
      if (m.head_dim % 8 || m.head_dim > most)
        fail("E0304",
             fmt::format("head_dim {} is not a multiple of 8 up to {}, as cuDNN's attention needs", m.head_dim, most),
             fmt::format("write head_dim: {}, or attention: auto",
                         m.head_dim > most ? std::to_string(most) : near_multiples(m.head_dim, 8)),
             {"model.head_dim", "target.attention", "target.arch"});
    }
  }

  void key_value_heads() {
    const Model& m = spec_.model;
    if (!usable({"model.num_attention_heads", "model.num_key_value_heads"}) ||
        m.num_attention_heads % m.num_key_value_heads == 0)
      return;
    fail("E0302",
         fmt::format("num_attention_heads {} is not divisible by num_key_value_heads {}", m.num_attention_heads,
                     m.num_key_value_heads),
         fmt::format("write num_key_value_heads: {}", near_divisors(m.num_attention_heads, m.num_key_value_heads)),
         {"model.num_key_value_heads", "model.num_attention_heads"});
  }

  void residual_stream() {
    if (!usable({"precision.compute", "precision.residual"}) || spec_.compute == Dtype::bf16 ||
        spec_.residual == Dtype::fp32)
      return;
    fail("E0316", "a bf16 residual stream needs compute: bf16, and compute is fp32",
         "write residual: fp32, or compute: bf16", {"precision.residual", "precision.compute"});
  }

  void rope() {
    const RopeScaling& r = spec_.model.rope_scaling;
    if (!r.llama3 || !usable({"model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor"}) ||
        r.low_freq_factor < r.high_freq_factor)
      return;
    fail("E0310",
         fmt::format("high_freq_factor {} is not above low_freq_factor {}", r.high_freq_factor, r.low_freq_factor),
         "write low_freq_factor: 1 and high_freq_factor: 4, as Llama 3 has them",
         {"model.rope_scaling.high_freq_factor", "model.rope_scaling.low_freq_factor"});
  }

  void batch() {
    const Batch& b = spec_.batch;
    if (!usable({"batch.sequence_length", "batch.micro_batch"})) return;
    if (b.micro_batch * b.sequence_length > std::numeric_limits<std::int32_t>::max()) {
      fail("E0313",
           fmt::format("micro_batch {} times sequence_length {} is above 2^31 - 1 rows", b.micro_batch,
                       b.sequence_length),
           fmt::format("write micro_batch: {} or less, or auto",
                       std::numeric_limits<std::int32_t>::max() / b.sequence_length),
           {"batch.micro_batch", "batch.sequence_length"});
      return;
    }
    if (usable({"batch.tokens"})) {
      if (b.tokens % b.sequence_length) {
        fail("E0305", fmt::format("tokens {} is not a multiple of sequence_length {}", b.tokens, b.sequence_length),
             "write tokens: " + near_multiples(b.tokens, b.sequence_length * std::max<std::int64_t>(b.micro_batch, 1)),
             {"batch.tokens", "batch.sequence_length"});
        return;
      }
      if (b.micro_batch && b.tokens % (b.micro_batch * b.sequence_length)) {
        fail("E0306",
             fmt::format("tokens {} is not a multiple of micro_batch * sequence_length = {} * {}", b.tokens,
                         b.micro_batch, b.sequence_length),
             fmt::format("write tokens: {}, or micro_batch: {}",
                         near_multiples(b.tokens, b.micro_batch * b.sequence_length),
                         near_divisors(b.tokens / b.sequence_length, b.micro_batch)),
             {"batch.tokens", "batch.micro_batch", "batch.sequence_length"});
        return;
      }
    }
    loss_chunk();
  }

  void loss_chunk() {
    const Batch& b = spec_.batch;
    const std::int64_t chunk = spec_.memory.loss_chunk;
    if (!usable({"memory.loss_chunk"}) || chunk == 0) return;
    if (b.micro_batch) {
      const std::int64_t rows = b.micro_batch * b.sequence_length;
      if (rows % chunk)
        fail("E0307",
             fmt::format("loss_chunk {} does not divide micro_batch * sequence_length = {} * {} = {}", chunk,
                         b.micro_batch, b.sequence_length, rows),
             fmt::format("write loss_chunk: {}", near_divisors(rows, chunk)),
             {"memory.loss_chunk", "batch.micro_batch", "batch.sequence_length"});
    } else if (usable({"batch.tokens"}) && b.tokens % chunk) {
      fail("E0307",
           fmt::format("loss_chunk {} does not divide any number of sequences of the batch of {} tokens", chunk,
                       b.tokens),
           fmt::format("write loss_chunk: {}", near_divisors(b.tokens, chunk)), {"memory.loss_chunk", "batch.tokens"});
    }
  }

  void recompute() {
    const Recompute& r = spec_.memory.recompute;
    if (r.kind != Recompute::Kind::every || !usable({"memory.recompute", "model.num_hidden_layers"}) ||
        r.every <= spec_.model.num_hidden_layers)
      return;
    fail("E0314", fmt::format("recompute every {} layers, but there are {}", r.every, spec_.model.num_hidden_layers),
         fmt::format("write every: {} or less, or recompute: none", spec_.model.num_hidden_layers),
         {"memory.recompute", "model.num_hidden_layers"});
  }

  void schedule() {
    const Schedule& s = spec_.schedule;
    if (!usable({"schedule.steps", "schedule.warmup_steps"})) return;
    if (s.warmup_steps >= s.steps) {
      fail("E0308", fmt::format("warmup_steps {} leaves nothing of {} steps", s.warmup_steps, s.steps),
           fmt::format("write warmup_steps: {} or less", std::max<std::int64_t>(s.steps / 10, 0)),
           {"schedule.warmup_steps", "schedule.steps"});
    } else if (s.kind == ScheduleKind::wsd && usable({"schedule.kind", "schedule.decay_fraction"}) &&
               static_cast<double>(s.warmup_steps) + s.decay_fraction * static_cast<double>(s.steps) >
                   static_cast<double>(s.steps)) {
      fail("E0312",
           fmt::format("warmup_steps {} and decay_fraction {} do not fit into {} steps", s.warmup_steps,
                       s.decay_fraction, s.steps),
           "write a smaller decay_fraction or fewer warmup_steps",
           {"schedule.decay_fraction", "schedule.warmup_steps", "schedule.steps"});
    }
  }

  void checkpoint() {
    const Checkpoint& c = spec_.checkpoint;
    if (!usable({"checkpoint.every", "checkpoint.keep_every"}) || c.keep_every == 0) return;
    if (c.every > 0 && c.keep_every % c.every == 0) return;
    fail("E0315", fmt::format("keep_every {} is not a multiple of every {}", c.keep_every, c.every),
         c.every > 0 ? "write keep_every: " + near_multiples(c.keep_every, c.every)
                     : "write every: N above 0, or leave keep_every out",
         {"checkpoint.keep_every", "checkpoint.every"});
  }

  /// The trainer reads prompts as token ids where there is no tokenizer.
  void prompts() {
    if (!usable({"sampling.prompts", "sampling.every", "data.tokenizer"}) || spec_.sampling.every == 0 ||
        !spec_.data.tokenizer.empty())
      return;
    for (const std::string& prompt : spec_.sampling.prompts)
      if (!token_ids(prompt)) {
        fail("E0317", fmt::format("without data.tokenizer the prompt {} must be token ids", in_quotes(prompt)),
             "add data.tokenizer, or write ids with blanks between them, such as \"17 4 256\"", {"sampling.prompts"});
        return;
      }
  }

  void architectures() {
    if (!usable({"target.kind", "target.arch"})) return;
    const bool cpu = spec_.target.kind == TargetKind::cpu;
    const std::vector<std::string>& known = cpu ? cpu_architectures() : cuda_architectures();
    for (const std::string& arch : spec_.target.arch) {
      if (std::find(known.begin(), known.end(), arch) != known.end()) continue;
      const auto near = nearest(arch, known);
      fail("E0311", fmt::format("target {} has no arch {}", cpu ? "cpu" : "cuda", in_quotes(arch)),
           near ? fmt::format("did you mean {}?", *near) : fmt::format("write {}", either(known)),
           {"target.arch", "target.kind"});
      return;
    }
    if (cpu && spec_.target.arch.size() > 1)
      fail("E0311", "a cpu trainer is compiled for one arch", fmt::format("write arch: {}", spec_.target.arch[0]),
           {"target.arch"});
    for (std::size_t i = 0; i < spec_.target.arch.size(); ++i)
      if (std::find(spec_.target.arch.begin(), spec_.target.arch.begin() + static_cast<std::ptrdiff_t>(i),
                    spec_.target.arch[i]) != spec_.target.arch.begin() + static_cast<std::ptrdiff_t>(i)) {
        fail("E0311", fmt::format("target.arch names {} twice", spec_.target.arch[i]), "remove one of them",
             {"target.arch"});
        return;
      }
  }

  void unread_keys() {
    for (const Key& key : keys()) {
      if (!given(key.path) || applies(key, spec_)) continue;
      const bool any = key.when_value == "*";
      if (!usable({key.when_key.c_str()})) continue;
      if (any)
        fail("E0309", fmt::format("{} is not read without {}", key.path, group_name(key.when_key)),
             fmt::format("add {}, or remove this key", group_name(key.when_key)), {key.path.c_str()});
      else
        fail("E0309", fmt::format("{} is only read with {}: {}", key.path, when_name(key), key.when_value),
             fmt::format("write {}: {}, or remove this key", when_name(key), key.when_value),
             {key.path.c_str(), key.when_key.c_str()});
    }
  }

 private:
  /// "data.validation" for data.validation.path: the key without the list around it.
  static std::string group_name(const std::string& path) {
    const std::string group = path.substr(0, path.rfind('.'));
    const Group* found = find_group(group);
    return found && found->list_of_one ? group : path;
  }
  static std::string when_name(const Key& key) {
    return key.when_key.find("rope_scaling") != std::string::npos ? "type" : key.when_key;
  }

  bool given(const std::string& path) const { return bound_.given.count(path) > 0; }
  bool usable(std::initializer_list<const char*> paths) const {
    return std::all_of(paths.begin(), paths.end(), [&](const char* path) { return bound_.usable(path); });
  }

  void fail(const char* code, std::string message, std::string advice, std::initializer_list<const char*> paths) {
    Diagnostic diagnostic{code, std::move(message), std::move(advice), {}};
    for (const char* path : paths) {
      const auto found = bound_.given.find(path);
      if (found != bound_.given.end())
        diagnostic.places.push_back(place_of(found->second, fmt::format("{} is given here", leaf(path))));
    }
    if (!diagnostic.places.empty()) diagnostic.places[0].note.clear();
    diagnostics_.push_back(std::move(diagnostic));
  }

  const Bound& bound_;
  const Spec& spec_;
  std::vector<Diagnostic>& diagnostics_;
};

}  // namespace

void check_relations(const Bound& bound, std::vector<Diagnostic>& diagnostics) {
  Relations relations(bound, diagnostics);
  relations.unread_keys();
  relations.heads();
  relations.key_value_heads();
  relations.residual_stream();
  relations.rope();
  relations.batch();
  relations.recompute();
  relations.schedule();
  relations.checkpoint();
  relations.prompts();
  relations.architectures();
}

}  // namespace llmc::spec
