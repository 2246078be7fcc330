#include "spec/relations/relations.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "spec/advice/proposals.h"
#include "spec/advice/synonyms.h"
#include "spec/fingerprint.h"
#include "spec/length/token_budget.h"
#include "spec/relations/checks.h"
#include "spec/scalars.h"
#include "spec/targets.h"
#include "spec/validation_sets.h"
#include "text/plural.h"

namespace llmc::spec {

namespace {

/// Returns the heads for each of which attention counts a row.
std::int64_t counted_heads(const Spec& spec) {
  return spec.target.kind == TargetKind::cuda ? std::max<std::int64_t>(spec.model.num_attention_heads, 1) : 1;
}

class Relations : RelationChecks {
 public:
  Relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics) : RelationChecks(bound, diagnostics) {}

  void audit() {
    if (!usable({"audit.compute"}) || spec_.audit.compute != AuditCompute::forward) return;
    const auto refuse = [this](const char* why, const char* key, const char* value) {
      fail("E0322", fmt::format("audit.compute: forward {}", why),
           fmt::format("write compute: logits, or {}: {}", leaf_of(key), value),
           any_of({write("audit.compute", "logits"), write(key, value)}), {"audit.compute", key});
    };
    if (usable({"precision.compute"}) && spec_.compute == DType::f32)
      refuse("repeats what training computes in fp32 already", "precision.compute", "bf16");
    else if (usable({"parallel.shard"}) && spec_.parallel.shard == Shard::parameters)
      refuse("needs all master weights, but each rank has only its shard", "parallel.shard", "gradients");
    else if (usable({"precision.master", "parallel.shard"}) && spec_.master == Masters::split &&
             spec_.parallel.shard == Shard::gradients)
      refuse("joins split masters in the memory of the gradients, of which each rank has only its shard",
             "parallel.shard", "optimizer");
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
           "write a multiple of sequence_length", near_passes, {"batch.tokens", "batch.sequence_length"});
    if (most_micro_batch(spec_) < std::max<std::int64_t>(b.micro_batch, 1)) {
      const std::int64_t most = std::max<std::int64_t>(most_micro_batch(spec_), 1), heads = counted_heads(spec_);
      fail("E0313",
           fmt::format("micro_batch {} times sequence_length {}{} is above 2^31 - 1 rows", b.micro_batch,
                       b.sequence_length, heads > 1 ? fmt::format(" times {} heads", heads) : ""),
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
           "write a multiple of micro_batch * sequence_length",
           [b, near_passes](const Sound& sound) {
             std::vector<Edit> edits = near_passes(sound);
             add_divisors(sound, "batch.micro_batch", b.tokens / b.sequence_length, b.micro_batch, edits);
             return edits;
           },
           {"batch.tokens", "batch.micro_batch", "batch.sequence_length"});
    ranks(pass);
    loss_chunk();
    scales_of_chunks();
  }

  /// `pass`: tokens of a micro-batch, or of a sequence if that is auto.
  void ranks(std::int64_t pass) {
    const std::int64_t world = spec_.parallel.world_size, tokens = spec_.batch.tokens,
                       micro_batch = spec_.batch.micro_batch;
    if (!usable({"batch.tokens", "parallel.world_size"}) || world <= tokens / pass || tokens % pass) return;
    fail("E0321",
         fmt::format("{} ranks need one micro-batch each, but a step of {} tokens has {} of {} tokens", world, tokens,
                     tokens / pass, pass),
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
      fail("E0307", fmt::format("loss_chunk {} does not divide batch.tokens {}", chunk, b.tokens),
           "write a divisor of batch.tokens, or auto", near_chunks(b.tokens), {"memory.loss_chunk", "batch.tokens"});
    }
  }

  /// Each chunk of logits reads its scales.
  void scales_of_chunks() {
    const std::int64_t chunk = spec_.memory.loss_chunk, rows = spec_.batch.micro_batch * spec_.batch.sequence_length;
    if (chunk == 0 ||
        !usable({"memory.loss_chunk", "precision.matmul", "precision.fp8.head", "target.kind", "target.arch"}))
      return;
    const std::int64_t multiple = chunk_multiple(spec_);
    const bool divides = rows ? rows % chunk == 0 : spec_.batch.tokens % chunk == 0;
    if (divides && chunk % multiple && chunk != rows)
      fail("E0307", fmt::format("fp8.head needs a multiple of {} as loss_chunk, not {}", multiple, chunk),
           fmt::format("write a multiple of {}, or auto", multiple),
           [chunk, multiple](const Sound& sound) {
             std::vector<Edit> edits;
             add_multiples(sound, "memory.loss_chunk", chunk, multiple, edits);
             add(sound, write("memory.loss_chunk", "auto"), edits);
             return edits;
           },
           {"memory.loss_chunk", "precision.fp8.head"});
  }

  void recompute() {
    const Recompute& r = spec_.memory.recompute;
    const std::int64_t layers = spec_.model.num_hidden_layers;
    if (!usable({"memory.recompute", "model.num_hidden_layers"})) return;
    if (r.kind == Recompute::Kind::layers && r.layers.back().last >= layers)
      fail("E0314", fmt::format("recompute names layer {}, but the model has {}", r.layers.back().last, layers),
           fmt::format("write layers from 0 to {}", layers - 1), any_of({write("memory.recompute", "auto")}),
           {"memory.recompute", "model.num_hidden_layers"});
    if (r.kind != Recompute::Kind::every || r.every <= layers) return;
    fail("E0314", fmt::format("recompute every {} layers is too large for a model with {}", r.every, layers),
         "write a smaller every, or recompute: none",
         any_of({write("memory.recompute", fmt::format("{{every: {}}}", layers)), write("memory.recompute", "none")}),
         {"memory.recompute", "model.num_hidden_layers"});
  }

  void schedule() {
    const Schedule& s = spec_.schedule;
    // A spec that llmc printed has both, which agree.
    if (given("schedule.tokens") && given("schedule.steps") && steps_of_budget(spec_) != s.steps) {
      fail("E0349", "schedule.tokens and schedule.steps both say how long the run is, and differ", "remove one of them",
           any_of({leave_out("schedule.steps"), leave_out("schedule.tokens")}), {"schedule.tokens", "schedule.steps"});
      return;
    }
    const Key &steps = *find_key("schedule.steps"), &tokens = *find_key("schedule.tokens");
    if (s.tokens.given() && usable({"schedule.tokens", "schedule.steps"}) &&
        static_cast<double>(s.steps) > *steps.maximum) {
      fail("E0205",
           fmt::format("schedule.tokens {} are {} steps, of which a run has at most {}",
                       value_text(tokens, tokens.get(spec_)), s.steps, bound_text(steps, *steps.maximum)),
           "write fewer tokens, or more batch.tokens", {}, {"schedule.tokens", "batch.tokens"});
      return;
    }
    if (s.tokens.given() && usable({"schedule.tokens", "batch.tokens"}) &&
        tokens_of(s.tokens, spec_.model) < spec_.batch.tokens && s.steps == 1) {
      fail("E0205",
           fmt::format("schedule.tokens {} is less than one step of {} tokens", value_text(tokens, tokens.get(spec_)),
                       spec_.batch.tokens),
           "write more tokens, or a multiple of the model's parameters such as 20x",
           any_of({write("schedule.tokens", "20x")}), {"schedule.tokens", "batch.tokens"});
      return;
    }
    if (!usable({"schedule.steps", "schedule.warmup_steps", "schedule.from_step"})) return;
    const std::int64_t length = s.steps - s.from_step;
    if (length <= 0) {
      fail("E0308",
           fmt::format("a schedule from step {} does not fit in {} step{}", s.from_step, s.steps, plural(s.steps)),
           "write an earlier from_step, or more steps",
           any_of({leave_out("schedule.from_step"), write("schedule.steps", 2 * s.from_step)}),
           {"schedule.from_step", "schedule.steps"});
    } else if (s.warmup_steps >= length) {
      fail("E0308", fmt::format("warmup_steps {} does not fit in {} step{}", s.warmup_steps, length, plural(length)),
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

  /// Sources of a mixture have weights, and each has a name.
  void sources() {
    const std::vector<MixedSource>& mixture = spec_.data.mixture;
    if (!usable({"data.train.path", "data.train.NAME"})) return;
    // An empty path on a command line removes a source.
    const char* const removed = given("data.train.path") ? "data.train.path" : "data.train.NAME";
    if (mixture.empty() && spec_.data.train.path.empty() && given(removed))
      fail("E0202", "data.train.path is required", "write a path, or sources with names: data.train.web=PATH", {},
           {removed});
    if (!mixture.empty() && !spec_.data.train.path.empty()) {
      std::string name = "rest";
      while (std::ranges::find(mixture, name, &MixedSource::name) != mixture.end()) name += "-1";
      fail("E0340", "data.train has a path without a name next to sources with names",
           fmt::format("give it a name, such as {}: {{path: ..., weight: ...}}, or remove it", name), {},
           {"data.train.path"});
    }
    for (const MixedSource& source : mixture) {
      if (source.weight > 0 || mixture.size() == 1) continue;
      const std::string path = "data.train." + source.name;
      Diagnostic diagnostic{"E0341",
                            fmt::format("{} has no weight", path),
                            "write the weight of each source: its share of the samples, relative to the others",
                            {}};
      const auto place = bound_.key_spans.find(path);
      if (place != bound_.key_spans.end()) diagnostic.places.push_back(place_of(place->second));
      diagnostic.key = path + ".weight";
      diagnostics_.push_back(std::move(diagnostic));
    }
  }

  /// checkpoint.best must name an existing set.
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

  void guards() {
    if (!usable({"guards.frozen_steps"}) || spec_.guards.frozen_steps != 1) return;
    fail("E0205", "frozen_steps 1 would warn of every first loss, because one loss cannot change",
         "write 0 or at least 2", any_of({write("guards.frozen_steps", 2)}), {"guards.frozen_steps"});
  }

  /// A device's name implies an arch; a size does not.
  void budget() {
    if (!given("memory.budget") || !usable({"memory.budget", "target.kind", "target.arch"}) ||
        spec_.target.kind != TargetKind::cuda)
      return;
    const Span& span = bound_.given.at("memory.budget");
    const std::string word = span.source->text.substr(span.begin, span.end - span.begin);
    const auto known = [](const std::string& arch) { return std::ranges::count(cuda_architectures(), arch) > 0; };
    if (!std::ranges::all_of(spec_.target.arch, known)) return;  // reported by E0311
    const auto fits = [this](const DeviceMemory& device) {
      return std::ranges::any_of(spec_.target.arch, [&](const std::string& arch) { return is_of(device, arch); });
    };
    const auto& devices = device_memories();
    const auto named = std::ranges::find_if(devices, [&](const DeviceMemory& device) { return word == device.name; });
    if (named == devices.end() || fits(*named)) return;
    // Prefers the device that times are planned for, if it is one of these.
    auto other = std::ranges::find_if(devices, [this, &fits](const DeviceMemory& device) {
      return fits(device) && device.name == spec_.target.device;
    });
    if (other == devices.end()) other = std::ranges::find_if(devices, fits);
    const std::string instead = other == devices.end() ? fmt::format("{}GiB", named->budget >> 30) : other->name;
    fail("E0324",
         fmt::format("memory.budget {} is a device of arch {}, but the target's arch is {}", word, named->arch,
                     fmt::join(spec_.target.arch, ", ")),
         fmt::format("write a device of that arch, such as {}, or a size such as {}GiB", instead, named->budget >> 30),
         any_of({write("memory.budget", instead)}), {"memory.budget", "target.arch"});
  }

  /// Without a tokenizer the trainer reads prompts as token ids.
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

  void unread_keys() {
    for (const Key& key : keys()) {
      if (!given(key.path) || applies(key, spec_)) continue;
      const bool any = key.when_value == "*";
      const bool group = find_group(key.when_key);
      if (group ? group_is_bad(key.when_key) : !usable({key.when_key.c_str()})) continue;
      if (any) {
        Edit edit = group ? write(key.when_key + ".path", "\"val-*.bin\"")
                          : write(key.when_key, example_of(*find_key(key.when_key)));
        edit.text = fmt::format(fmt::runtime(group ? "write {}: [{{path: {}}}]" : "write {}: {}"), key.when_key,
                                edit.write[0].second);
        fail("E0309", fmt::format("{} has no effect without {}", key.path, key.when_key),
             fmt::format("add {}, or remove this key", key.when_key), any_of({edit, leave_out(key.path)}),
             {key.path.c_str()});
      } else {
        std::vector<std::string> values = key.when_also;
        values.insert(values.begin(), key.when_value);
        fail("E0309", fmt::format("{} has an effect only with {}: {}", key.path, when_name(key), either(values)),
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
  /// A value that makes the keys depending on it effective.
  static std::string example_of(const Key& key) {
    if (key.type == Type::strings) return "[\"Once upon a time\"]";
    if (key.type == Type::integer) return "1024";
    if (key.type != Type::choice) return "\"PATH\"";
    return *std::ranges::find_if(key.words, [&](const std::string& word) { return word != key.fallback; });
  }
  static std::string when_name(const Key& key) {
    return key.when_key.find("rope_scaling") != std::string::npos ? "type" : key.when_key;
  }

  static Edit when(const Key& key) {
    Edit edit = write(key.when_key, key.when_value);
    edit.text = fmt::format("write {}: {}", when_name(key), key.when_value);
    return edit;
  }
};

}  // namespace

void check_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics) {
  Relations relations(bound, diagnostics);
  relations.unread_keys();
  check_model_relations(bound, diagnostics);
  check_precision_relations(bound, diagnostics);
  relations.audit();
  relations.budget();
  relations.batch();
  relations.recompute();
  relations.schedule();
  relations.checkpoint();
  relations.guards();
  relations.sources();
  relations.best();
  relations.prompts();
}

void check_run_relations(const BoundSpec& bound, std::vector<Diagnostic>& diagnostics) {
  Relations relations(bound, diagnostics);
  relations.unread_keys();
  relations.batch();
  relations.schedule();
  relations.checkpoint();
  relations.guards();
  relations.sources();
  relations.best();
}

bool relations_hold(const Spec& spec) {
  std::vector<Diagnostic> diagnostics;
  // A head_dim that does not follow from other sizes must have been given.
  check_relations({.spec = spec, .given = {{"model.head_dim", {}}}, .key_spans = {}, .members = {}, .bad = {}},
                  diagnostics);
  return diagnostics.empty();
}

std::int64_t most_micro_batch(const Spec& spec) {
  return std::numeric_limits<std::int32_t>::max() / counted_heads(spec) / spec.batch.sequence_length;
}

}  // namespace llmc::spec
