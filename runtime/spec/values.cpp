#include "spec/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <stdexcept>

#include "error.h"
#include "files/disk.h"
#include "spec/advice/suggestions.h"
#include "spec/binder.h"
#include "spec/fingerprint.h"
#include "spec/flow_reader.h"
#include "spec/overrides.h"
#include "spec/print.h"
#include "spec/relations/relations.h"

namespace llmc::spec {

namespace fs = std::filesystem;

namespace {

/// Lines "error; advice", one per diagnostic.
std::string sentences(const std::vector<Diagnostic>& diagnostics) {
  std::string text;
  for (const Diagnostic& d : diagnostics) text += (text.empty() ? "" : "\n") + d.message + "; " + d.advice;
  return text;
}

/// Reads the block style that to_yaml prints, and no other YAML.
class PrintedReader {
 public:
  explicit PrintedReader(const Source& source) : source_(source) {
    const std::string& text = source.text;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      Line line{begin, begin, end, false};
      while (line.key < end && text[line.key] == ' ') ++line.key;
      if (text.compare(line.key, 2, "- ") == 0) {
        line.item = true;
        line.key += 2;
      }
      if (line.key < end && text[line.key] != '#') lines_.push_back(line);
      begin = end + 1;
    }
  }

  std::set<std::string> derived;  // keys whose line has the mark

  Node read() {
    Node root = map(0, "");
    if (at_ < lines_.size()) fail("indented differently from the lines before it");
    return root;
  }

 private:
  struct Line {
    std::size_t begin, key, end;  // key: where its text begins, after blanks and "- "
    bool item;
    std::size_t indent() const { return key - begin; }
  };

  [[noreturn]] void fail(const std::string& what) const {
    const std::size_t begin = at_ < lines_.size() ? lines_[at_].begin : source_.text.size();
    throw std::invalid_argument(fmt::format("line {} is {}", position_of(source_, begin).line, what));
  }

  Node map(std::size_t indent, const std::string& path) {
    Node node;
    node.kind = Node::Kind::map;
    for (bool first = true; at_ < lines_.size() && lines_[at_].indent() == indent; first = false) {
      const Line line = lines_[at_];
      if (line.item && !first) break;  // the list's next item
      const std::size_t colon = source_.text.find(':', line.key);
      if (colon >= line.end) fail("no `key: value`");
      KeyText key{source_.text.substr(line.key, colon - line.key), {&source_, line.key, colon}};
      if (node.find(key.text)) fail("a key that is set twice");
      const std::string inner = path.empty() ? key.text : path + "." + key.text;
      std::vector<Diagnostic> diagnostics;
      std::optional<Node> value = read_flow(source_, colon + 1, line.end, diagnostics);
      if (!value) fail(fmt::format("no value: {}", diagnostics.empty() ? "" : diagnostics[0].message));
      const bool heads =
          value->kind == Node::Kind::null && at_ + 1 < lines_.size() && lines_[at_ + 1].indent() > indent;
      if (heads) {
        ++at_;
        value = group(lines_[at_], inner);
      } else {
        if (source_.text.substr(value->span.end, line.end - value->span.end).find(kDerivedMark) != std::string::npos)
          derived.insert(inner);
        ++at_;
      }
      node.members.push_back({std::move(key), std::move(*value)});
    }
    return node;
  }

  Node group(const Line& first, const std::string& path) {
    if (++depth_ > kMaxDepth) fail("indented too deep");
    const Span start = {&source_, first.key, first.end};
    Node inside, list;
    list.kind = Node::Kind::list;
    list.span = start;
    const std::size_t indent = first.indent();
    const bool items = first.item;
    do {
      inside = map(indent, path);
      inside.span = start;
      if (items) list.items.push_back(std::move(inside));
    } while (items && at_ < lines_.size() && lines_[at_].item && lines_[at_].indent() == indent);
    --depth_;
    return items ? list : inside;
  }

  const Source& source_;
  std::vector<Line> lines_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

/// Values overridden by the keys of a tree, or the errors of those keys.
struct LaidOver {
  Values values;
  std::vector<Diagnostic> diagnostics;
  Exit exit = Exit::usage;  // Exit::spec: each is valid, but they are inconsistent
};

LaidOver lay_over(const Values& base, const Node& root, const fs::path& directory, const Schema& schema) {
  LaidOver laid;
  BoundSpec bound = bind_over(base, root, laid.diagnostics, schema);
  for (const auto& [path, span] : bound.given) {
    const Key& key = *schema.find_key(path);
    const std::string before = value_text(key, key.get(base.spec)), after = value_text(key, key.get(bound.spec));
    if (key.stage != Stage::run_time && before != after)
      laid.diagnostics.push_back(
          {"",  // trainers print no codes
           fmt::format("{0} is compiled in: this trainer was built with {0}={1}, not {2}", path, before, after),
           fmt::format("run `llmc compile` with {}={} for a trainer with that value", path, after),
           {place_of(span)},
           path});
  }
  if (!laid.diagnostics.empty()) return laid;
  laid.values.derived = base.derived;
  for (const Key& key : schema.keys())
    if (bound.given.count(key.follows)) laid.values.derived.insert(key.path);
  for (const auto& [path, span] : bound.given) {
    const Key& key = *schema.find_key(path);
    laid.values.derived.erase(path);
    change_paths(key, bound.spec, [&](const std::string& own, const std::string& written) {
      const bool typed = own == path || bound.members.count(own) > 0;
      return typed ? disk::absolute(directory / written, Exit::usage).lexically_normal().string() : written;
    });
  }
  check_run_relations(bound, laid.diagnostics);
  laid.values.spec = std::move(bound.spec);
  laid.exit = Exit::spec;
  return laid;
}

}  // namespace

Values read_values(const std::string& text, const std::string& name, const Schema& schema) {
  std::deque<Source> sources{{name, text, false}};
  const Source& source = sources[0];
  std::vector<Diagnostic> diagnostics;
  if (!check_bytes(source, diagnostics)) throw std::invalid_argument(sentences(diagnostics));
  PrintedReader reader(source);
  const Node root = reader.read();
  BoundSpec bound = bind_tree(root, source, false, diagnostics, schema);
  if (!diagnostics.empty()) {
    const auto examine = [&](const Node& changed) {
      Examined examined;
      examined.spec = bind_tree(changed, source, false, examined.diagnostics, schema).spec;
      return examined;
    };
    suggest(root, examine, {}, sources, diagnostics, schema);
    throw std::invalid_argument(sentences(diagnostics));
  }
  for (const Key& key : schema.keys())
    if (is_derived(key, bound.spec) && !bound.given.count(key.path)) reader.derived.insert(key.path);
  return {std::move(bound.spec), std::move(reader.derived)};
}

Values override_values(const Values& values, const std::vector<std::string>& words, const fs::path& directory,
                       const Schema& schema) {
  std::deque<Source> sources;
  std::vector<Diagnostic> diagnostics;
  Node root;
  root.kind = Node::Kind::map;
  apply_overrides(root, words, sources, diagnostics, schema);
  const bool spelled = diagnostics.empty();
  LaidOver laid = lay_over(values, root, directory, schema);
  std::move(laid.diagnostics.begin(), laid.diagnostics.end(), std::back_inserter(diagnostics));
  if (diagnostics.empty()) return std::move(laid.values);
  const auto examine = [&](const Node& changed) {
    LaidOver again = lay_over(values, changed, directory, schema);
    return Examined{std::move(again.values.spec), std::move(again.diagnostics)};
  };
  suggest(root, examine, {}, sources, diagnostics, schema);
  throw Failure(spelled ? laid.exit : Exit::usage, sentences(diagnostics));
}

namespace {

/// Members of the entries of a key on either side, with their paths.
std::vector<std::pair<const Key*, std::string>> members_of(const Key& row, const Spec& before, const Spec& after) {
  std::vector<std::pair<const Key*, std::string>> paths;
  for (const Spec* side : {&before, &after}) {
    const Entries entries = std::get<Entries>(row.get(*side));
    for (std::size_t i = 0; i < entries.size(); ++i)
      for (const Key& member : row.members)
        if (std::pair path(&member, row.path_of(row.path_of(entries, i), member)); !std::ranges::count(paths, path))
          paths.push_back(std::move(path));
  }
  return paths;
}

}  // namespace

std::vector<Change> changes(const Spec& before, const Spec& after, const Schema& schema) {
  std::vector<Change> result;
  const auto add = [&](const Key& key, const std::string& path) {
    const auto shown = [&](const Spec& spec) {
      const Value value = schema.value_at(path, spec);
      return schema.applies(key, spec) && present(value) ? value_text(key, value) : std::string("none");
    };
    if (std::string was = shown(before), is = shown(after); was != is)
      result.push_back({&key, path, std::move(was), std::move(is)});
  };
  for (const Key& key : schema.keys()) {
    if (!key.has_entries()) add(key, key.path);
    if (key.has_entries())
      for (const auto& [member, path] : members_of(key, before, after)) add(*member, path);
  }
  return result;
}

std::vector<Change> changes(const Values& before, const Values& after) {
  std::vector<Change> given = changes(before.spec, after.spec);
  std::erase_if(given, [&](const Change& c) { return before.derived.count(c.path) && after.derived.count(c.path); });
  return given;
}

const std::vector<std::string>& soft_model_keys() {
  static const std::vector<std::string> soft = [] {
    std::vector<std::string> all;
    for (const Key& key : keys())
      if ((key.path.starts_with("model.rope_") && key.path != "model.rope_interleaved") ||
          key.path == "model.sliding_window" || key.path == "model.layer_types")
        all.push_back(key.path);
    return all;
  }();
  return soft;
}

std::string model_changes(const Spec& before, const Spec& after) {
  std::string text;
  for (const Change& change : changes(before, after))
    if (is_model(*change.key))
      text += fmt::format("{}{} {} -> {}", text.empty() ? "" : ", ", change.path, change.before, change.after);
  return text;
}

std::string text_of(const std::string& path, const Spec& spec) {
  const Key& key = *find_key(path);
  return value_text(key, key.get(spec));
}

void resolve_paths(Spec& spec, const fs::path& directory) {
  for (const Key& key : keys())
    change_paths(key, spec, [&](const std::string&, const std::string& path) {
      return (directory / path).lexically_normal().string();
    });
}

std::string related_path(const fs::path& path, const fs::path& directory) {
  const auto first = [](const fs::path& p) { return *std::next(p.begin(), p.is_absolute() && p != p.root_path()); };
  const bool near = path.is_absolute() && directory.is_absolute() && first(path) == first(directory);
  return (near ? path.lexically_relative(directory) : path).string();
}

void relate_paths(Spec& spec, const fs::path& directory) {
  if (disk::canonical_if_known(directory) / "" != (directory / "").lexically_normal()) return;
  for (const Key& key : keys())
    change_paths(key, spec, [&](const std::string&, const std::string& path) { return related_path(path, directory); });
}

}  // namespace llmc::spec
