#include "spec/relations.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>

#include "plural.h"
#include "spec/proposals.h"
#include "spec/scalars.h"
#include "spec/synonyms.h"
#include "spec/targets.h"
#include "spec/validation_sets.h"

namespace llmc::spec {
namespace {

class Relations {
 public:
  Relations(const Bound& bound, std::vector<Diagnostic>& diagnostics)
      : bound_(bound), spec_(bound.spec), diagnostics_(diagnostics) {}

  void heads() {
    const Model& m = spec_.model;
    // Widths and numbers of heads that leave each head an even number of columns.
    const auto other_sizes = [hidden = m.hidden_size, heads = m.num_attention_heads](const Sound& sound) {
      std::vector<Edit> edits;
      add_multiples(sound, "model.hidden_size", hidden, heads, edits);
      add_divisors(sound, "model.num_attention_heads", hidden, heads, edits);
      add_head_dim(sound, hidden / heads, edits);
      return edits;
    };
    if (usable({"model.hidden_size", "model.num_attention_heads"}) && !given("model.head_dim") &&
        m.hidden_size % m.num_attention_heads) {
      fail("E0301",
           fmt::format("hidden_size {} is not divisible by num_attention_heads {}", m.hidden_size,
                       m.num_attention_heads),
           "choose sizes that divide and leave an even head_dim, or set head_dim", other_sizes,
           {"model.hidden_size", "model.num_attention_heads"});
      return;
    }
    if (!usable({"model.head_dim"})) return;
    if (m.head_dim % 2) {
      if (given("model.head_dim"))
        fail("E0303", fmt::format("head_dim {} is odd, and RoPE rotates pairs", m.head_dim), "write an even head_dim",
             [dim = m.head_dim](const Sound& sound) {
               std::vector<Edit> edits;
               add_multiples(sound, "model.head_dim", dim, 2, edits);
               return edits;
             },
             {"model.head_dim"});
      else
        fail("E0303", fmt::format("hidden_size / num_attention_heads = {} is odd, and RoPE rotates pairs", m.head_dim),
             "choose sizes that leave an even head_dim, or set head_dim", other_sizes,
             {"model.hidden_size", "model.num_attention_heads"});
    } else if (usable({"target.kind", "target.arch", "target.attention"}) && spec_.target.kind == TargetKind::cuda) {
      cuda_heads();
    }
  }

  void cuda_heads() {
    const Model& m = spec_.model;
    if (spec_.target.attention != AttentionKind::cudnn) {
      if (m.head_dim > 256)
        fail("E0304", fmt::format("head_dim {} is above 256, the widest for attention on cuda", m.head_dim),
             "write a head_dim of at most 256", any_of({write("model.head_dim", 256)}),
             {"model.head_dim", "target.kind"});
      return;
    }
    const auto& arch = spec_.target.arch;
    const bool old =
        std::any_of(arch.begin(), arch.end(), [](const std::string& a) { return a.size() == 2 && a < "90"; });
    const std::int64_t most = old ? 128 : 256;
    if (m.head_dim % 8 == 0 && m.head_dim <= most) return;
    fail("E0304",
         fmt::format("head_dim {} is not a multiple of 8 up to {}, as cuDNN's attention needs", m.head_dim, most),
         "write a head_dim that cuDNN has, or attention: auto",
         [dim = m.head_dim, most](const Sound& sound) {
           std::vector<Edit> edits;
           if (dim > most)
             add(sound, write("model.head_dim", most), edits);
           else
             add_multiples(sound, "model.head_dim", dim, 8, edits);
           add(sound, write("target.attention", "auto"), edits);
           return edits;
         },
         {"model.head_dim", "target.attention", "target.arch"});
  }

  void cuda_attention() {
    if (!usable({"target.kind"}) || spec_.target.kind != TargetKind::cuda) return;
    if (usable({"precision.compute"}) && spec_.compute != DType::bf16)
      fail("E0318", "attention on cuda has no fp32", "write compute: bf16, or kind: cpu",
           any_of({write("precision.compute", "bf16"), write("target.kind", "cpu")}),
           {"precision.compute", "target.kind"});
    // The biases of q, k and v lie in one vector, and llmc's kernels take each of them 16 bytes at a time.
    const Model& m = spec_.model;
    if (!usable({"model.attention_bias", "model.head_dim", "model.num_attention_heads", "model.num_key_value_heads"}) ||
        !m.attention_bias || m.head_dim % 2)
      return;
    const std::int64_t q = m.num_attention_heads * m.head_dim, k = m.num_key_value_heads * m.head_dim;
    if (q % 8 == 0 && k % 8 == 0) return;
    fail(
        "E0319",
        fmt::format("with attention_bias on cuda, q and k have multiples of 8 columns; here they have {} and {}", q, k),
        "write attention_bias: false, or a head_dim that is a multiple of 8",
        [dim = m.head_dim](const Sound& sound) {
          std::vector<Edit> edits;
          add(sound, write("model.attention_bias", "false"), edits);
          add_multiples(sound, "model.head_dim", dim, 8, edits);
          return edits;
        },
        {"model.attention_bias", "model.head_dim", "target.kind"});
  }

  void key_value_heads() {
    const Model& m = spec_.model;
    if (!usable({"model.num_attention_heads", "model.num_key_value_heads"}) ||
        m.num_attention_heads % m.num_key_value_heads == 0)
      return;
    fail("E0302",
         fmt::format("num_attention_heads {} is not divisible by num_key_value_heads {}", m.num_attention_heads,
                     m.num_key_value_heads),
         "write a divisor of num_attention_heads",
         [heads = m.num_attention_heads, kv = m.num_key_value_heads](const Sound& sound) {
           std::vector<Edit> edits;
           add_divisors(sound, "model.num_key_value_heads", heads, kv, edits);
           return edits;
         },
         {"model.num_key_value_heads", "model.num_attention_heads"});
  }

  void qk_norm() {
    if (!usable({"model.qk_norm", "model.mlp_bias"}) || !spec_.model.qk_norm || !spec_.model.mlp_bias) return;
    fail("E0320", "qk_norm makes a Qwen 3 model, whose MLP has no biases", "write mlp_bias: false, or qk_norm: false",
         any_of({write("model.mlp_bias", "false"), write("model.qk_norm", "false")}),
         {"model.mlp_bias", "model.qk_norm"});
  }

  void residual_stream() {
    if (!usable({"precision.compute", "precision.residual"}) || spec_.compute == DType::bf16 ||
        spec_.residual == DType::f32)
      return;
    fail("E0316", "a bf16 residual stream needs compute: bf16, and compute is fp32",
         "write residual: fp32, or compute: bf16",
         any_of({write("precision.residual", "fp32"), write("precision.compute", "bf16")}),
         {"precision.residual", "precision.compute"});
  }

  void audit() {
    if (!usable({"audit.compute"}) || spec_.audit.compute != AuditCompute::forward) return;
    const auto refuse = [this](const char* why, const char* key, const char* value) {
      fail("E0322", fmt::format("audit.compute: forward {}", why),
           fmt::format("write compute: logits, or {}: {}", leaf_of(key), value),
           any_of({write("audit.compute", "logits"), write(key, value)}), {"audit.compute", key});
    };
    if (usable({"precision.compute"}) && spec_.compute == DType::f32)
      refuse("does nothing that training does not: it computes in fp32", "precision.compute", "bf16");
    else if (usable({"parallel.shard"}) && spec_.parallel.shard == Shard::parameters)
      refuse("reads master weights, of which each rank has its share alone", "parallel.shard", "gradients");
  }

  void rope() {
    const RopeScaling& r = spec_.model.rope_scaling;
    if (!r.llama3 || !usable({"model.rope_scaling.low_freq_factor", "model.rope_scaling.high_freq_factor"}) ||
        r.low_freq_factor < r.high_freq_factor)
      return;
    Edit edit;
    edit.write = {{"model.rope_scaling.low_freq_factor", "1"}, {"model.rope_scaling.high_freq_factor", "4"}};
    edit.text = "write low_freq_factor: 1 and high_freq_factor: 4, as Llama 3 has them";
    fail("E0310",
         fmt::format("high_freq_factor {} is not above low_freq_factor {}", r.high_freq_factor, r.low_freq_factor),
         "write a larger high_freq_factor", any_of({edit}),
         {"model.rope_scaling.high_freq_factor", "model.rope_scaling.low_freq_factor"});
  }

  void batch() {
    const Batch& b = spec_.batch;
    if (!usable({"batch.sequence_length", "batch.micro_batch"})) return;
    const std::int64_t pass = b.sequence_length * std::max<std::int64_t>(b.micro_batch, 1);
    const bool tokens = usable({"batch.tokens"});
    const auto near_passes = [b, pass](const Sound& sound) {
      std::vector<Edit> edits;
      add_multiples(sound, "batch.tokens", b.tokens, pass, edits);
      return edits;
    };
    if (tokens && b.tokens % b.sequence_length)
      fail("E0305", fmt::format("tokens {} is not a multiple of sequence_length {}", b.tokens, b.sequence_length),
           "write a number of tokens that is whole passes", near_passes, {"batch.tokens", "batch.sequence_length"});
    if (pass > std::numeric_limits<std::int32_t>::max()) {
      const std::int64_t most = std::numeric_limits<std::int32_t>::max() / b.sequence_length;
      fail("E0313",
           fmt::format("micro_batch {} times sequence_length {} is above 2^31 - 1 rows", b.micro_batch,
                       b.sequence_length),
           fmt::format("write micro_batch: {} or less, or auto", most),
           [most, b, tokens](const Sound& sound) {
             std::vector<Edit> edits;
             const bool whole = tokens && b.tokens % b.sequence_length == 0;
             for (std::int64_t n = most; n > 0 && edits.empty(); --n)
               if (!whole || b.tokens / b.sequence_length % n == 0) {
                 const Edit edit = write("batch.micro_batch", n);
                 if (sound(edit))
                   edits.push_back(edit);
                 else if (most - n > kTries)
                   break;
               }
             add(sound, write("batch.micro_batch", "auto"), edits);
             return edits;
           },
           {"batch.micro_batch", "batch.sequence_length"});
      return;
    }
    if (tokens && b.tokens % b.sequence_length == 0 && b.tokens % pass)
      fail("E0306",
           fmt::format("tokens {} is not a multiple of micro_batch * sequence_length = {} * {}", b.tokens,
                       b.micro_batch, b.sequence_length),
           "choose tokens that are whole passes",
           [b, near_passes](const Sound& sound) {
             std::vector<Edit> edits = near_passes(sound);
             add_divisors(sound, "batch.micro_batch", b.tokens / b.sequence_length, b.micro_batch, edits);
             return edits;
           },
           {"batch.tokens", "batch.micro_batch", "batch.sequence_length"});
    ranks(pass);
    loss_chunk();
  }

  /// `pass`: the tokens of a micro-batch, or of a sequence where that is auto.
  void ranks(std::int64_t pass) {
    const std::int64_t world = spec_.parallel.world_size, tokens = spec_.batch.tokens,
                       micro_batch = spec_.batch.micro_batch;
    if (!usable({"batch.tokens", "parallel.world_size"}) || world <= tokens / pass) return;
    fail("E0321",
         fmt::format("{} ranks, but a step of {} tokens has {} {}", world, tokens, tokens / pass,
                     micro_batch ? "micro-batches" : "sequences"),
         "write fewer ranks, more tokens or a smaller micro_batch",
         [world, tokens, micro_batch, pass](const Sound& sound) {
           std::vector<Edit> edits;
           if (micro_batch) add(sound, write("batch.micro_batch", "auto"), edits);
           add(sound, write("batch.tokens", world * pass), edits);
           add(sound, write("parallel.world_size", std::max<std::int64_t>(tokens / pass, 1)), edits);
           return edits;
         },
         {"parallel.world_size", "batch.tokens", "batch.micro_batch", "batch.sequence_length"});
  }

  void loss_chunk() {
    const Batch& b = spec_.batch;
    const std::int64_t chunk = spec_.memory.loss_chunk;
    if (!usable({"memory.loss_chunk"}) || chunk == 0) return;
    const auto near_chunks = [chunk](std::int64_t rows) {
      return [chunk, rows](const Sound& sound) {
        std::vector<Edit> edits;
        add_divisors(sound, "memory.loss_chunk", rows, chunk, edits);
        if (edits.empty()) add(sound, write("memory.loss_chunk", "auto"), edits);
        return edits;
      };
    };
    if (b.micro_batch) {
      const std::int64_t rows = b.micro_batch * b.sequence_length;
      if (rows % chunk)
        fail("E0307",
             fmt::format("loss_chunk {} does not divide micro_batch * sequence_length = {} * {} = {}", chunk,
                         b.micro_batch, b.sequence_length, rows),
             "write a divisor of the rows of one pass, or auto", near_chunks(rows),
             {"memory.loss_chunk", "batch.micro_batch", "batch.sequence_length"});
    } else if (usable({"batch.tokens"}) && b.tokens % chunk) {
      fail("E0307",
           fmt::format("loss_chunk {} does not divide any number of sequences of the batch of {} tokens", chunk,
                       b.tokens),
           "write a divisor of the batch, or auto", near_chunks(b.tokens), {"memory.loss_chunk", "batch.tokens"});
    }
  }

  void recompute() {
    const Recompute& r = spec_.memory.recompute;
    const std::int64_t layers = spec_.model.num_hidden_layers;
    if (r.kind != Recompute::Kind::every || !usable({"memory.recompute", "model.num_hidden_layers"}) ||
        r.every <= layers)
      return;
    fail("E0314", fmt::format("recompute every {} layers of a model with {}", r.every, layers),
         "write a smaller every, or recompute: none",
         any_of({write("memory.recompute", fmt::format("{{every: {}}}", layers)), write("memory.recompute", "none")}),
         {"memory.recompute", "model.num_hidden_layers"});
  }

  void schedule() {
    const Schedule& s = spec_.schedule;
    if (!usable({"schedule.steps", "schedule.warmup_steps", "schedule.from_step"})) return;
    const std::int64_t length = s.steps - s.from_step;
    if (length <= 0) {
      fail("E0308",
           fmt::format("a schedule from step {} leaves nothing of {} step{}", s.from_step, s.steps, plural(s.steps)),
           "write an earlier from_step, or more steps",
           any_of({leave_out("schedule.from_step"), write("schedule.steps", 2 * s.from_step)}),
           {"schedule.from_step", "schedule.steps"});
    } else if (s.warmup_steps >= length) {
      fail("E0308", fmt::format("warmup_steps {} leaves nothing of {} step{}", s.warmup_steps, length, plural(length)),
           "write fewer warmup_steps", any_of({write("schedule.warmup_steps", length / 10)}),
           {"schedule.warmup_steps", "schedule.steps"});
    } else if (s.kind == ScheduleKind::wsd && usable({"schedule.kind", "schedule.decay_fraction"}) &&
               static_cast<double>(s.warmup_steps) + s.decay_fraction * static_cast<double>(length) >
                   static_cast<double>(length)) {
      const double left = static_cast<double>(length - s.warmup_steps) / static_cast<double>(length);
      const auto flat = static_cast<std::int64_t>((1 - s.decay_fraction) * static_cast<double>(length));
      fail("E0312",
           fmt::format("warmup_steps {} and decay_fraction {} do not fit into {} steps", s.warmup_steps,
                       s.decay_fraction, length),
           "write a smaller decay_fraction or fewer warmup_steps",
           any_of({write("schedule.decay_fraction", fmt::format("{}", std::floor(left * 100) / 100)),
                   write("schedule.warmup_steps", flat)}),
           {"schedule.decay_fraction", "schedule.warmup_steps", "schedule.steps"});
    }
  }

  void checkpoint() {
    const Checkpoint& c = spec_.checkpoint;
    if (!usable({"checkpoint.every", "checkpoint.keep_every"}) || c.keep_every == 0) return;
    if (c.every > 0 && c.keep_every % c.every == 0) return;
    fail("E0315", fmt::format("keep_every {} is not a multiple of every {}", c.keep_every, c.every),
         "write a multiple of every, or leave keep_every out",
         [c](const Sound& sound) {
           std::vector<Edit> edits;
           if (c.every > 0)
             add_multiples(sound, "checkpoint.keep_every", c.keep_every, c.every, edits);
           else
             add(sound, write("checkpoint.every", c.keep_every), edits);
           if (edits.empty() || c.every == 0) add(sound, leave_out("checkpoint.keep_every"), edits);
           return edits;
         },
         {"checkpoint.keep_every", "checkpoint.every"});
  }

  /// checkpoint.best goes by a set that there is.
  void best() {
    const std::string& best = spec_.checkpoint.best;
    if (!usable({"checkpoint.best", "data.validation.path", "data.validation.NAME"})) return;
    std::vector<std::string> words;
    for (const ValidationSet& set : validation_sets(spec_.data)) words.push_back(set.word());
    if (best == "none" || words.empty() || std::ranges::find(words, best) != words.end()) return;
    words.push_back("none");
    std::vector<Edit> edits;
    if (const auto near = nearest(best, words)) {
      edits.push_back(write("checkpoint.best", *near));
      edits.back().meant = true;
    }
    fail("E0323", fmt::format("there is no validation set {} for checkpoint.best", in_quotes(best)),
         "write " + either(words), any_of(std::move(edits)), {"checkpoint.best"});
  }

  /// The trainer reads prompts as token ids where there is no tokenizer.
  void prompts() {
    if (!usable({"sampling.prompts", "sampling.every", "data.tokenizer"}) || spec_.sampling.every == 0 ||
        !spec_.data.tokenizer.empty())
      return;
    for (const std::string& prompt : spec_.sampling.prompts)
      if (!parse_token_ids(prompt)) {
        fail("E0317", fmt::format("without data.tokenizer the prompt {} must be token ids", in_quotes(prompt)),
             "add data.tokenizer, or write ids with blanks between them, such as \"17 4 256\"", {},
             {"sampling.prompts"});
        return;
      }
  }

  void architectures() {
    if (!usable({"target.kind", "target.arch"})) return;
    const bool cpu = spec_.target.kind == TargetKind::cpu;
    const std::vector<std::string>& known = cpu ? cpu_architectures() : cuda_architectures();
    const std::vector<std::string>& others = cpu ? cuda_architectures() : cpu_architectures();
    const std::vector<std::string>& arch = spec_.target.arch;
    const auto of = [](const std::vector<std::string>& list, const std::string& name) {
      return std::find(list.begin(), list.end(), name) != list.end();
    };
    for (std::size_t i = 0; i < arch.size(); ++i) {
      if (of(known, arch[i])) continue;
      std::vector<Edit> edits;
      const auto near = nearest(arch[i], known);
      // "sm_90a", "9.0a" and "compute_90a" all name 90a.
      std::string digits;
      std::copy_if(arch[i].begin(), arch[i].end(), std::back_inserter(digits),
                   [](char c) { return (c >= '0' && c <= '9') || c == 'a'; });
      while (!cpu && !digits.empty() && !of(known, digits)) digits.erase(0, 1);
      const std::string device = cpu ? "" : our_word("target.arch", arch[i]);
      const std::string meant = !device.empty() ? device : !cpu && !digits.empty() ? digits : near.value_or("");
      if (!meant.empty()) {
        edits.push_back(write("target.arch", with(arch, i, meant)));
        edits.back().meant = true;
        edits.back().text = fmt::format("did you mean {}?", meant);
      }
      // target.attention is read on cuda alone.
      if (of(others, arch[i]) && (cpu || !given("target.attention")))
        edits = {write("target.kind", cpu ? "cuda" : "cpu")};
      if (meant.empty()) edits.push_back(write("target.arch", cpu ? "native" : with(arch, i, "90a")));
      fail("E0311", fmt::format("target {} has no arch {}", cpu ? "cpu" : "cuda", in_quotes(arch[i])),
           fmt::format("write {}", either(known)), any_of(std::move(edits)), {"target.arch", "target.kind"});
      return;
    }
    if (cpu && arch.size() > 1) {
      fail("E0311", "a cpu trainer is compiled for one arch", "write one", any_of({write("target.arch", arch[0])}),
           {"target.arch"});
      return;
    }
    for (std::size_t i = 0; i < arch.size(); ++i)
      if (of({arch.begin(), arch.begin() + static_cast<std::ptrdiff_t>(i)}, arch[i])) {
        fail("E0311", fmt::format("target.arch names {} twice", arch[i]), "remove one of them",
             any_of({write("target.arch", with(arch, i, ""))}), {"target.arch"});
        return;
      }
  }

  void unread_keys() {
    for (const Key& key : keys()) {
      if (!given(key.path) || applies(key, spec_)) continue;
      const bool any = key.when_value == "*";
      const bool group = find_group(key.when_key);
      if (group ? group_is_bad(key.when_key) : !usable({key.when_key.c_str()})) continue;
      if (any) {
        const bool list = !group && find_key(key.when_key)->type == Type::strings;
        Edit edit = write(group ? key.when_key + ".path" : key.when_key, list    ? "[\"Once upon a time\"]"
                                                                         : group ? "\"val-*.bin\""
                                                                                 : "\"PATH\"");
        edit.text = fmt::format(fmt::runtime(group ? "write {}: [{{path: {}}}]" : "write {}: {}"), key.when_key,
                                edit.write[0].second);
        fail("E0309", fmt::format("{} is not read without {}", key.path, key.when_key),
             fmt::format("add {}, or remove this key", key.when_key), any_of({edit, leave_out(key.path)}),
             {key.path.c_str()});
      } else {
        fail("E0309", fmt::format("{} is only read with {}: {}", key.path, when_name(key), key.when_value),
             fmt::format("write {}: {}, or remove this key", when_name(key), key.when_value),
             any_of({when(key), leave_out(key.path)}), {key.path.c_str(), key.when_key.c_str()});
      }
    }
  }

 private:
  bool group_is_bad(const std::string& group) const {
    return std::ranges::any_of(keys(),
                               [&](const Key& key) { return key.group() == group && !bound_.usable(key.path); });
  }
  static std::string when_name(const Key& key) {
    return key.when_key.find("rope_scaling") != std::string::npos ? "type" : key.when_key;
  }

  static Edit when(const Key& key) {
    Edit edit = write(key.when_key, key.when_value);
    edit.text = fmt::format("write {}: {}", when_name(key), key.when_value);
    return edit;
  }

  /// A list in brackets with another word in place of the one at `at`, or without it.
  static std::string with(std::vector<std::string> list, std::size_t at, const std::string& word) {
    list[at] = word;
    if (word.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    for (std::string& item : list)
      if (!std::all_of(item.begin(), item.end(),
                       [](char c) { return c == '-' || std::isalnum(static_cast<unsigned char>(c)); }))
        item = "\"?\"";  // wrong too, and not to be repeated
    return "[" + either(list, ", ") + "]";
  }

  bool given(const std::string& path) const { return bound_.given.count(path) > 0; }
  bool usable(std::initializer_list<const char*> paths) const {
    return std::all_of(paths.begin(), paths.end(), [&](const char* path) { return bound_.usable(path); });
  }

  void fail(const char* code, std::string message, std::string rule, Propose propose,
            std::initializer_list<const char*> paths) {
    Diagnostic diagnostic{code, std::move(message), std::move(rule), {}};
    diagnostic.key = *paths.begin();
    diagnostic.propose = std::move(propose);
    for (const char* path : paths) {
      const auto found = bound_.given.find(path);
      if (found != bound_.given.end())
        diagnostic.places.push_back(place_of(found->second, fmt::format("{} is given here", leaf_of(path))));
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
  relations.cuda_attention();
  relations.key_value_heads();
  relations.qk_norm();
  relations.residual_stream();
  relations.audit();
  relations.rope();
  relations.batch();
  relations.recompute();
  relations.schedule();
  relations.checkpoint();
  relations.best();
  relations.prompts();
  relations.architectures();
}

void check_run_relations(const Bound& bound, std::vector<Diagnostic>& diagnostics) {
  Relations relations(bound, diagnostics);
  relations.unread_keys();
  relations.batch();
  relations.schedule();
  relations.checkpoint();
  relations.best();
}

}  // namespace llmc::spec
