#include "compiler/spec/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>

#include "compiler/spec/phases.h"
#include "compiler/spec/yaml_reader.h"
#include "files/disk.h"
#include "spec/binder.h"
#include "spec/fingerprint.h"
#include "spec/overrides.h"
#include "spec/relations/relations.h"
#include "spec/schema/schema.h"
#include "spec/targets.h"
#include "spec/values.h"
#include "text/shell.h"

namespace llmc::spec {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestChain = 8;  // files that one spec extends, one through the other
constexpr std::size_t kLongestPath = 4096;

/// Folder of a file: as written, or its real path if a symbolic link is in it, because `..` then leads elsewhere.
std::string directory_of(const std::string& path) {
  const fs::path parent = fs::path(path).parent_path(), written = parent.empty() ? "." : parent;
  std::error_code error;
  const fs::path whole = fs::absolute(written, error), real = disk::canonical_if_known(written);
  const bool linked = !error && (whole / "").lexically_normal() != real / "";
  return (linked ? real : written).string();
}

/// Path that is the same for every spelling of the file's folder.
fs::path real_path(const std::string& path) {
  return disk::canonical_if_known(directory_of(path)) / fs::path(path).filename();
}

class SpecLoader {
 public:
  SpecLoader(const ReadFile& read_file, const Accept& accept) : read_file_(read_file), accept_(accept) {}

  LoadResult load(const std::string& text, const std::string& name, const std::vector<std::string>& overrides) {
    LoadResult result;
    if (std::optional<Node> root = read(text, name)) {
      const std::vector<PhaseNode> phases = take_phases(*root, diagnostics_);
      if (phases.empty())
        result.resolved = resolve(std::move(*root), name, overrides, result.notes);
      else
        result.phases = resolve_phases(phases, *root, name, overrides, result.notes);
    }
    sort_by_place(diagnostics_);
    result.diagnostics = std::move(diagnostics_);
    return result;
  }

 private:
  std::optional<Resolved> resolve(Node root, const std::string& name, const std::vector<std::string>& overrides,
                                  std::vector<std::string>& notes, std::optional<std::int64_t> steps = {}) {
    apply_overrides(root, overrides, sources_, diagnostics_);
    if (steps) replace_tokens(root, *steps);
    keep_the_upper_length(root, notes);
    BoundSpec bound = bind_tree(root, sources_.front(), whole_, diagnostics_);
    forget_what_is_of_the_other_kind(bound, notes);
    forget_what_does_not_apply(bound, notes);
    check_relations(bound, diagnostics_);
    if (diagnostics_.empty()) {
      note_wide_window(bound.spec, notes);
      note_steep_rates(bound.spec, notes);
      if (bound.spec.checkpoint.best != "none" && bound.spec.evaluation.every == 0)
        notes.push_back("checkpoint.best keeps no checkpoint, because evaluation.every is 0");
    }
    if (diagnostics_.empty()) return finish(std::move(bound), name);
    // A spec without the file that it extends lacks what it needs, and is not to be planned.
    suggest(
        root, [this](const Node& changed) { return examine(changed); }, whole_ ? accept_ : Accept(), sources_,
        diagnostics_);
    return std::nullopt;
  }

  /// All phases, or none if one of them is wrong. What is wrong is told of the first such phase.
  std::vector<Resolved> resolve_phases(std::vector<PhaseNode> nodes, const Node& root, const std::string& name,
                                       const std::vector<std::string>& overrides, std::vector<std::string>& notes) {
    const std::vector<Spec> unchecked = bind_each(nodes, root, overrides);
    std::optional<std::int64_t> steps;
    if (!unchecked.empty()) steps = steps_of_ramp(nodes, unchecked, diagnostics_);
    if (steps)
      notes.push_back(fmt::format("schedule.tokens {} are {} steps of the phases' batches",
                                  text_of("schedule.tokens", unchecked.front()), *steps));
    std::vector<Resolved> phases = resolve_each(nodes, root, name, overrides, notes, steps);
    if (phases.empty()) return phases;
    if (diagnostics_.empty()) join_phases(nodes, phases, diagnostics_);
    return diagnostics_.empty() ? phases : std::vector<Resolved>();
  }

  /// Values of all phases whose relations are not checked yet, since the length of the run may follow from them. None
  /// if one has an error.
  std::vector<Spec> bind_each(const std::vector<PhaseNode>& nodes, const Node& root,
                              const std::vector<std::string>& overrides) {
    std::vector<Spec> specs;
    std::vector<Diagnostic> errors;
    std::vector<std::string> notes;
    for (const PhaseNode& node : nodes) {
      Node merged = of_phase(root, node);
      apply_overrides(merged, overrides, sources_, errors);
      keep_the_upper_length(merged, notes);
      BoundSpec bound = bind_tree(merged, sources_.front(), whole_, errors);
      // Both in one file contradict each other, which the check of relations reports.
      if (bound.given.contains("schedule.steps") && bound.given.contains("schedule.tokens")) return {};
      specs.push_back(std::move(bound.spec));
    }
    return errors.empty() ? specs : std::vector<Spec>();
  }

  static Node of_phase(const Node& root, const PhaseNode& node) {
    Node merged = root;
    merge(merged, node.over);
    merged.span = root.span;
    return merged;
  }

  /// All phases, each as a spec of its own, or none. `steps`: the length of the run, in place of schedule.tokens.
  std::vector<Resolved> resolve_each(const std::vector<PhaseNode>& nodes, const Node& root, const std::string& name,
                                     const std::vector<std::string>& overrides, std::vector<std::string>& notes,
                                     std::optional<std::int64_t> steps) {
    std::vector<Resolved> phases;
    if (!diagnostics_.empty()) return phases;
    for (const PhaseNode& node : nodes) {
      std::vector<std::string> said;
      std::optional<Resolved> resolved = resolve(of_phase(root, node), name, overrides, said, steps);
      if (!resolved) return {};
      phases.push_back(std::move(*resolved));
      for (std::string& note : said)
        if (!std::ranges::count(notes, note)) notes.push_back(std::move(note));
    }
    return phases;
  }

  static void replace_tokens(Node& root, std::int64_t steps) {
    std::vector<Member>& schedule = root.find("schedule")->members;
    std::erase_if(schedule, [](const Member& member) { return member.key.text == "steps"; });
    Member& length = *std::ranges::find(schedule, "tokens", [](const Member& member) { return member.key.text; });
    length.key.text = "steps";
    length.value.text = std::to_string(steps);
  }

  static void note_wide_window(const Spec& spec, std::vector<std::string>& notes) {
    const std::int64_t window = spec.model.sliding_window, sequence = spec.batch.sequence_length;
    if (window >= sequence)
      notes.push_back(
          fmt::format("model.sliding_window {} covers all of batch.sequence_length {}, so every layer attends to all "
                      "tokens before it",
                      window, sequence));
  }

  /// Rates with which no model is known to train.
  static void note_steep_rates(const Spec& spec, std::vector<std::string>& notes) {
    const double lr = spec.optimizer.lr, decay = spec.optimizer.weight_decay;
    if (lr >= 1) notes.push_back(fmt::format("optimizer.lr {} is far above usual rates, which are below 0.1", lr));
    if (lr * decay >= 1)
      notes.push_back(
          fmt::format("optimizer.lr {} times optimizer.weight_decay {} is {:.3g}, so one step's decay "
                      "takes all of a weight or more",
                      lr, decay, lr * decay));
  }

  /// The same checks for a changed tree.
  Examined examine(const Node& root) {
    Examined examined;
    BoundSpec bound = bind_tree(root, sources_.front(), whole_, examined.diagnostics);
    std::vector<std::string> notes;
    forget_what_is_of_the_other_kind(bound, notes);
    forget_what_does_not_apply(bound, notes);
    check_relations(bound, examined.diagnostics);
    examined.spec = std::move(bound.spec);
    return examined;
  }

  /// How far above the others a value's source stands: a file over those that it extends, an override over all. What is
  /// suggested for a file is part of the first.
  std::size_t rank(const Span& span) const {
    if (span.source->command_line) return sources_.size();
    for (std::size_t i = 0; i < files_.size(); ++i)
      if (&sources_[i] == span.source) return sources_.size() - 1 - i;
    return sources_.size() - 1;
  }

  /// The target.kind that a file was written for: its own, or that of a file which it extends.
  std::string kind_below(const Span& span) const {
    for (std::size_t i = 0; i < sources_.size(); ++i)
      if (const auto found = kinds_.find(sources_[i].name);
          found != kinds_.end() && !sources_[i].command_line && sources_.size() - 1 - i <= rank(span))
        return found->second;
    return find_key("target.kind")->fallback;
  }

  /// Of schedule.steps and schedule.tokens, removes the one whose source is below that of the other.
  void keep_the_upper_length(Node& root, std::vector<std::string>& notes) const {
    Node* schedule = root.find("schedule");
    if (!schedule || schedule->kind != Node::Kind::map) return;
    const Node *steps = schedule->find("steps"), *tokens = schedule->find("tokens");
    if (!steps || !tokens || !steps->span.source || !tokens->span.source) return;
    const std::size_t above = rank(steps->span), other = rank(tokens->span);
    if (above == other) return;
    const char *upper = above > other ? "steps" : "tokens", *lower = above > other ? "tokens" : "steps";
    notes.push_back(
        fmt::format("schedule.{} takes the place of schedule.{} {}", upper, lower, schedule->find(lower)->text));
    std::erase_if(schedule->members, [&](const Member& member) { return member.key.text == lower; });
  }

  /// A target.kind that replaces that of a file below leaves behind what that file says for its own kind, the arch, the
  /// memory and the kernels of attention: defaults take their place.
  void forget_what_is_of_the_other_kind(BoundSpec& bound, std::vector<std::string>& notes) {
    const auto kind = bound.given.find("target.kind");
    if (kind == bound.given.end() || !bound.usable("target.kind")) return;
    const bool cpu = bound.spec.target.kind == TargetKind::cpu;
    const std::string ours = cpu ? "cpu" : "cuda", theirs = cpu ? "cuda" : "cpu";
    const std::vector<std::string>& archs = cpu ? cuda_architectures() : cpu_architectures();
    for (const char* path : {"target.arch", "target.attention", "memory.budget"}) {
      const auto given = bound.given.find(path);
      if (given == bound.given.end() || !bound.usable(path) || rank(kind->second) <= rank(given->second)) continue;
      const Key& key = *find_key(path);
      // The name of an arch says itself what it is of.
      const bool foreign = path == std::string("target.arch")
                               ? std::ranges::all_of(bound.spec.target.arch,
                                                     [&](const std::string& arch) {
                                                       return std::ranges::find(archs, arch) != archs.end();
                                                     })
                               : kind_below(given->second) == theirs;
      if (!foreign) continue;
      const std::string was = value_text(key, key.get(bound.spec));
      const bool read = applies(key, bound.spec);
      set_default(key, bound.spec);
      notes.push_back(
          read ? fmt::format("{} {} applies to {}; for target.kind {} the default {} is used", path, was, theirs, ours,
                             value_text(key, key.get(bound.spec)))
               : fmt::format("{} {} applies to {} and is ignored for target.kind {}", path, was, theirs, ours));
      bound.given.erase(given);
    }
  }

  /// A precision.matmul or an optimizer.kind that replaces that of a file below leaves behind what that file says of
  /// its own products or optimizer, and which does not apply to the new one.
  void forget_what_does_not_apply(BoundSpec& bound, std::vector<std::string>& notes) {
    forget(bound, "precision.matmul", notes,
           [&](const Key& key) { return key.group() == "precision.fp8" && !applies(key, bound.spec); });
    forget(bound, "optimizer.kind", notes, [&](const Key& key) {
      if (key.path == "precision.optimizer_state") return bound.spec.optimizer.kind != OptimizerKind::adamw;
      return key.path.starts_with("optimizer.") && !applies(key, bound.spec);
    });
  }

  /// Only of keys that have a default.
  static void set_default(const Key& key, Spec& spec) {
    key.set(spec, key.derive ? *key.derive(spec) : *fallback_of(key));
  }

  /// Gives those keys from files below that of the decisive key their defaults, and says so.
  void forget(BoundSpec& bound, const char* decisive, std::vector<std::string>& notes,
              const std::function<bool(const Key&)>& goes) {
    const auto chosen = bound.given.find(decisive);
    if (chosen == bound.given.end() || !bound.usable(decisive)) return;
    std::vector<std::string> forgotten;
    for (const Key& key : keys()) {
      const auto given = bound.given.find(key.path);
      if (given == bound.given.end() || !goes(key) || !bound.usable(key.path) ||
          rank(chosen->second) <= rank(given->second))
        continue;
      const std::string was = value_text(key, key.get(bound.spec));
      set_default(key, bound.spec);
      if (value_text(key, key.get(bound.spec)) != was) forgotten.push_back(fmt::format("{} {}", key.path, was));
      bound.given.erase(given);
    }
    if (!forgotten.empty())
      notes.push_back(fmt::format("{} {} ignored for {} {}", fmt::join(forgotten, ", "),
                                  forgotten.size() > 1 ? "are" : "is", decisive, text_of(decisive, bound.spec)));
  }

  /// One file and, below it, what it extends.
  std::optional<Node> read(std::string text, const std::string& name) {
    files_.push_back({name, text});  // as it is on the disk, so that its checksum is the file's
    if (text.compare(0, 3, "\xef\xbb\xbf") == 0) text.erase(0, 3);  // the byte order mark of some editors
    const Source& source = sources_.emplace_back(Source{name, std::move(text), false});
    const std::size_t before = diagnostics_.size();
    std::optional<Node> node = read_yaml(source, diagnostics_);
    if (!node && diagnostics_.size() > before) return {};
    if (!node || node->kind != Node::Kind::map) {
      diagnostics_.push_back(
          {"E0110",
           node && node->kind != Node::Kind::null ? "a spec must be a map of keys" : "the file has no keys",
           "write `key: value` lines, or start from a spec that `llmc init` writes",
           {node ? place_of(node->span) : place_of_file(name)}});
      return {};
    }
    if (node->find("model_type") && !node->find("model")) {
      diagnostics_.push_back(
          {"E0110",
           "this is a Hugging Face model's configuration, not a spec",
           fmt::format("write a spec of its model with `llmc init --from {} -o spec.yaml`", printable(name)),
           {place_of_file(name)}});
      return {};
    }
    if (const Node* target = node->find("target"); target && target->kind == Node::Kind::map)
      if (const Node* kind = target->find("kind")) kinds_[name] = kind->text;
    chain_.push_back(real_path(name));
    if (const Node* extends = node->find("extends")) {
      if (std::optional<Node> base = read_base(*extends, name)) {
        merge(*base, std::move(*node));
        node = std::move(base);
      } else {
        whole_ = false;
      }
    }
    return node;
  }

  std::optional<Node> read_base(const Node& extends, const std::string& name) {
    const auto fail = [&](const char* code, std::string message, std::string advice) {
      diagnostics_.push_back({code, std::move(message), std::move(advice), {place_of(extends.span)}});
      return std::nullopt;
    };
    if (extends.kind == Node::Kind::bad) return {};
    if (extends.kind != Node::Kind::scalar || extends.text.empty() || extends.text.size() > kLongestPath ||
        extends.text.find('\0') != std::string::npos || fs::path(extends.text).is_absolute())
      return fail("E0403", "extends takes one path, relative to this file", "write extends: base.yaml");
    const std::string path = (fs::path(directory_of(name)) / extends.text).lexically_normal().string();
    if (std::ranges::count(chain_, real_path(path)))
      return fail("E0401",
                  fmt::format("{} extends itself{}", printable(path), chain_.size() > 1 ? " through other files" : ""),
                  "remove one of the extends");
    if (chain_.size() > kLongestChain)
      return fail("E0402", fmt::format("more than {} files extend each other", kLongestChain), "merge some of them");
    const std::optional<std::string> text = read_file_ ? read_file_(path) : std::nullopt;
    if (!text)
      return fail("E0111", fmt::format("{} cannot be read", printable(path)), "write a path relative to this file");
    return read(*text, path);
  }

  Resolved finish(BoundSpec bound, const std::string& name) {
    Resolved resolved;
    resolved.directory = directory_of(name);
    resolved.files = files_;
    for (const Key& key : keys()) {
      const auto given = bound.given.find(key.path);
      if (given == bound.given.end()) {
        if (is_derived(key, bound.spec)) resolved.origins[key.path].derivation = key.derivation;
        resolved.origins[key.path];
        continue;
      }
      const Source& source = *given->second.source;
      resolved.origins[key.path] = origin_at(given->second);
      change_paths(key, bound.spec, [&](const std::string& own, const std::string& path) {
        const auto member = bound.members.find(own);
        const Source& from = member == bound.members.end() ? source : *member->second.source;
        return from.command_line ? rebased_word(path, resolved.directory)
                                 : rebased(path, from.name, resolved.directory);
      });
    }
    for (const auto& [path, span] : bound.members) resolved.origins[path] = origin_at(span);
    resolved.spec = std::move(bound.spec);
    return resolved;
  }

  static Origin origin_at(const Span& span) {
    if (span.source->command_line) return {.kind = Origin::Kind::command_line};
    return {.kind = Origin::Kind::file, .file = span.source->name, .line = position_of(*span.source, span.begin).line};
  }

  /// A path is relative to the file it stands in; in the Spec all are relative to the spec itself.
  static std::string rebased(const fs::path& path, const std::string& file, const std::string& directory) {
    if (path.is_absolute() || directory_of(file) == directory) return path.string();
    const fs::path from = fs::path(directory_of(file)) / path;
    const fs::path rebased = from.lexically_normal().lexically_relative(fs::path(directory).lexically_normal());
    return (rebased.empty() ? disk::absolute(from, Exit::usage) : rebased).string();
  }

  /// A path that was typed is relative to the current directory.
  static std::string rebased_word(const fs::path& path, const std::string& directory) {
    if (path.is_absolute() || directory == ".") return path.string();
    return disk::canonical_if_known(path).lexically_relative(disk::canonical_if_known(directory)).string();
  }

  const ReadFile& read_file_;
  const Accept& accept_;
  std::deque<Source> sources_;  // a deque: spans point into it
  std::vector<SpecFile> files_;
  std::map<std::string, std::string> kinds_;  // target.kind of each file that has one
  std::vector<Diagnostic> diagnostics_;
  std::vector<fs::path> chain_;
  bool whole_ = true;  // every file that is extended could be read
};

/// Returns advice for a spec that does not exist.
std::string missing_advice(const std::string& path) {
  std::error_code error;
  std::vector<std::string> names;
  const std::string folder = directory_of(path);
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().extension() == ".yaml") names.push_back(entry->path().filename().string());
  if (path.find('=') != std::string::npos) return "write the spec before its overrides: SPEC key.path=value";
  const auto near = nearest(fs::path(path).filename().string(), names);
  if (near) return fmt::format("did you mean {}?", printable((fs::path(path).parent_path() / *near).string()));
  return fmt::format(
      "give the path of a spec, such as specs/quickstart.yaml, or write a new one with `llmc init -o {}`",
      printable(path));
}

}  // namespace

namespace {

/// At most kMaxBytes + 1 bytes.
std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad() || !file.is_open()) return {};
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
}

}  // namespace

std::optional<std::string> read_regular_file(const std::string& path) {
  std::error_code error;
  return fs::is_regular_file(path, error) ? read_text(path) : std::nullopt;
}

bool is_open_pipe(const std::string& path) {
  std::error_code error;
  const bool named = path.starts_with("/dev/fd/") || path.starts_with("/proc/self/fd/") || path == "/dev/stdin";
  return named && fs::is_fifo(path, error);
}

std::optional<std::string> read_pipe(const std::string& path) {
  return is_open_pipe(path) ? read_text(path) : std::nullopt;
}

LoadResult load(const std::string& path, const std::vector<std::string>& overrides, const Accept& accept) {
  if (const std::optional<std::string> text = read_pipe(path))
    return load_text(*text, kPipeName, overrides, read_regular_file, accept);
  if (const std::optional<std::string> text = read_regular_file(path))
    return load_text(*text, path, overrides, read_regular_file, accept);
  LoadResult result;
  std::error_code error;
  const bool folder = fs::is_directory(path, error), there = fs::exists(path, error) || error;
  const fs::path inside = fs::path(path) / "spec.yaml";  // of a run, a checkpoint or a project
  result.diagnostics.push_back(
      {"E0111",
       folder                              ? "this is a folder"
       : !there                            ? "there is no such file"
       : ::access(path.c_str(), R_OK) != 0 ? fmt::format("the file cannot be read: {}", std::strerror(errno))
                                           : "the file cannot be read",
       folder && fs::exists(inside, error) ? fmt::format("give its spec, {}", printable(inside.string()))
       : folder && fs::exists(fs::path(path) / "config.json", error)
           ? fmt::format("`llmc init --from {} -o spec.yaml` writes a spec of its model", shell_word(printable(path)))
       : there ? "give the path of a spec, such as specs/quickstart.yaml"
               : missing_advice(path),
       {place_of_file(path)}});
  return result;
}

LoadResult load_text(const std::string& text, const std::string& name, const std::vector<std::string>& overrides,
                     const ReadFile& read_file, const Accept& accept) {
  return SpecLoader(read_file, accept).load(text, name, overrides);
}

}  // namespace llmc::spec
