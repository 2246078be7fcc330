#include "spec/binder.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "spec/advice/synonyms.h"
#include "spec/entries.h"
#include "spec/flow_reader.h"

namespace llmc::spec {
namespace {

std::string join(const std::string& group, const std::string& leaf) {
  return group.empty() ? leaf : group + "." + leaf;
}

/// "data.train.path" for "data.train[0].path" and "data.train.0.path".
std::string without_indices(const std::string& path) {
  std::string result;
  for (std::size_t begin = 0, end; begin <= path.size(); begin = end + 1) {
    end = std::min(path.find('.', begin), path.size());
    const std::string word = path.substr(begin, std::min(path.find('[', begin), end) - begin);
    if (word.find_first_not_of("0123456789") != std::string::npos) result = join(result, word);
  }
  return result;
}

/// For a group that was given the scalar `value`: the key in it that was probably meant, and its value as YAML. The
/// path of a source, a choice with this value, a size, or an interval.
std::optional<std::pair<std::string, std::string>> meant_in(const Schema& schema, const KeyGroup& group,
                                                            const Node& value) {
  if (value.kind != Node::Kind::scalar) return {};
  const auto accepts = [&](const Key& key, const std::string& text) {
    const Source source{"suggestion", text, true};
    std::vector<Diagnostic> wrong;
    const std::optional<Node> node = read_flow(source, 0, source.text.size(), wrong);
    return node && convert(key, *node, node->span, wrong) && wrong.empty();
  };
  for (const Key& key : schema.keys()) {
    if (key.group() != group.path) continue;
    if (group.list_of_one && key.is_path)
      return std::pair(key.path,
                       nlohmann::json(value.text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    const bool often = key.leaf() == "every" && key.type == Type::integer;
    if (key.type != Type::choice && key.type != Type::bytes && !often) continue;
    const std::string ours = our_word(key.path, value.text);
    for (const std::string& text : {value.text, ours})
      if (!text.empty() && accepts(key, text)) return std::pair(key.path, text);
  }
  return {};
}

class Binder {
 public:
  Binder(const Schema& schema, const Spec& base, bool whole, std::vector<Diagnostic>& diagnostics)
      : schema_(schema), whole_(whole), diagnostics_(diagnostics) {
    bound.spec = base;
  }

  BoundSpec bound;

  /// `named`: components that are not keys of the group may be user-chosen names.
  void walk(const Node& map, const std::string& group, bool named = false) {
    for (const auto& [key, value] : map.members) {
      if (diagnostics_.size() >= kMaxDiagnostics) return;
      if (group.empty() && key.text == "extends") continue;
      const std::string path = join(group, key.text);
      // A dot within a component in the file would be a second spelling of a key.
      const bool word = key.text.find('.') == std::string::npos;
      const Key* leaf = word ? schema_.find_key(path) : nullptr;
      const Key* names = word && named ? schema_.names_in(group) : nullptr;
      if (const KeyGroup* child = word ? schema_.find_group(path) : nullptr) {
        bound.key_spans[path] = key.span;
        enter(*child, value, key);
      } else if (leaf && leaf->type != Type::map) {
        bound.key_spans[path] = key.span;
        if (named && value.kind == Node::Kind::map && schema_.names_in(group))
          no_name(*leaf, *schema_.names_in(group), key);
        else if (leaf->type == Type::list)
          read_list(*leaf, value, key.span, bound, diagnostics_);
        else
          set(*leaf, value, key.span);
      } else if (names && names->names_entry(key.text)) {
        read_named(*names, value, key, bound, diagnostics_);
      } else if (const std::string section = join(group, key.text); !names && is_foreign_section(section, value)) {
        for (const auto& [inner, unused] : value.members) unknown(section, inner, value, false);
      } else {
        unknown(group, key, map, named);
      }
    }
  }

  void fill_defaults(const Source& source) {
    for (const Key& key : schema_.keys()) {
      if (bound.given.count(key.path) || bound.bad.count(key.path)) continue;
      if (key.required && !replaced(key)) missing(key, source);
    }
    derive([](const Key&) { return true; });
  }

  void derive(const std::function<bool(const Key&)>& wanted) {
    for (const Key& key : schema_.keys()) {
      if (!key.derive || bound.given.count(key.path) || bound.bad.count(key.path) || !wanted(key)) continue;
      if (const std::optional<Value> value = key.derive(bound.spec))
        key.set(bound.spec, *value);
      else
        bound.bad.insert(key.path);
    }
  }

 private:
  /// Whether entries with user-chosen names take the place of a required key.
  bool replaced(const Key& key) const {
    const Key* names = schema_.find_key(key.required_unless);
    return names && (bound.bad.count(names->path) || present(names->get(bound.spec)));
  }

  void mark_bad(const std::string& group) {
    for (const Key& key : schema_.keys())
      if (key.path.compare(0, group.size() + 1, group + ".") == 0) bound.bad.insert(key.path);
  }

  void enter(const KeyGroup& group, const Node& value, const KeyText& key) {
    if (std::optional<Diagnostic> wrong = not_a_map(schema_, group, value)) {
      mark_bad(group.path);
      diagnostics_.push_back(std::move(*wrong));
      return;
    }
    const Node* node = group.list_of_one && value.kind == Node::Kind::list ? &value.items[0] : &value;
    if (node->kind == Node::Kind::map) {
      walk(*node, group.path, node == &value);
    } else if (node->kind == Node::Kind::bad) {
      mark_bad(group.path);
    } else {
      const Key& leaf = *schema_.find_key(join(group.path, group.shorthand));
      bound.key_spans[leaf.path] = key.span;
      set(leaf, *node, key.span);
    }
  }

  /// A map in place of the value of a key: an entry whose name is the key.
  void no_name(const Key& leaf, const Key& names, const KeyText& key) {
    bound.bad.insert(leaf.path);
    bound.bad.insert(names.path);
    diagnostics_.push_back(
        {"E0208",
         fmt::format("{} is a key of {}, so no {} can have this name", in_quotes(key.text), leaf.group(), names.entry),
         fmt::format("choose another name, such as {}-1", key.text),
         {place_of(key.span)},
         leaf.path});
  }

  void set(const Key& key, const Node& node, const Span& key_span) {
    bound.given[key.path] = node.span;
    if (const std::optional<Value> value = convert(key, node, key_span, diagnostics_))
      key.set(bound.spec, *value);
    else
      bound.bad.insert(key.path);
  }

  void missing(const Key& key, const Source& source) {
    bound.bad.insert(key.path);
    if (!whole_) return;
    std::string group = key.group();
    // If the group of a missing source is absent from the file, the whole group is reported.
    while (!group.empty() && !bound.key_spans.count(group))
      group = group.find('.') == std::string::npos ? "" : group.substr(0, group.rfind('.'));
    const auto found = bound.key_spans.find(group);
    const KeyGroup* list = schema_.find_group(key.group());
    const std::string example =
        list && list->list_of_one && list->path != group
            ? fmt::format("{}: [{{path: \"tokens-*.bin\"}}]", list->path.substr(list->path.rfind('.') + 1))
            : fmt::format("{}: {}", key.leaf(),
                          key.type == Type::integer ? "N"
                          : key.is_path             ? "\"tokens-*.bin\""
                                                    : "...");
    diagnostics_.push_back({"E0202",
                            fmt::format("{} is required", key.path),
                            fmt::format("add `{}`{}", example, group.empty() ? "" : fmt::format(" to {}", group)),
                            {found == bound.key_spans.end() ? place_of_file(source.name) : place_of(found->second)},
                            key.path});
  }

  std::vector<std::string> keys_of_name(const std::string& word) const {
    std::vector<std::string> found;
    for (const Key& key : schema_.keys())
      if (key.leaf() == plain_word(word)) found.push_back(key.path);
    return found;
  }

  /// Returns whether this is a section of another framework, such as torchtitan's training: some of its keys are known,
  /// as theirs or as llmc's. A misspelt group of llmc's is not.
  bool is_foreign_section(const std::string& path, const Node& value) const {
    const auto any = [&](const auto& known) {
      return value.kind == Node::Kind::map &&
             std::ranges::any_of(value.members, [&](const Member& inner) { return known(inner.key.text); });
    };
    return any([&](const std::string& word) { return !advice_for_key(join(path, word)).empty(); }) ||
           (any([this](const std::string& word) { return !keys_of_name(word).empty(); }) &&
            (!advice_for_key(path).empty() || !nearest(plain_word(leaf_of(path)), schema_.children(group_of(path)))));
  }

  /// `map`: the group's values, `key` among them.
  void unknown(const std::string& group, const KeyText& key, const Node& map, bool named) {
    const bool ours = group.empty() || schema_.find_group(group);
    const std::vector<std::string> known = schema_.children(ours ? group : "");
    const std::string path = join(group, key.text);
    std::string advice = known.empty() ? ""
                                       : fmt::format("{} {}",
                                                     known.size() == 1 ? "the only key here is"
                                                     : ours            ? "the keys here are"
                                                                       : "the keys at the top are",
                                                     either(known, " and "));
    if (const Key* names = named ? schema_.names_in(group) : nullptr)
      advice += (advice.empty() ? "" : "; ") + names->name_rule();
    std::vector<Edit> edits;
    std::vector<Location> places = {place_of(key.span)};
    const auto move = [&](const std::string& to, bool meant) {
      edits.push_back({{}, {}, path, to, meant, meant ? "" : fmt::format("the key is {}", to)});
    };
    const std::string synonym = advice_for_key(path);
    // Its value is unknown, so no rule about other keys may use the default.
    if (!synonym.empty() && group_of(synonym_of(path)->key) == group) bound.bad.insert(synonym_of(path)->key);
    const bool word = key.text.find('.') == std::string::npos;  // a multi-component path cannot be renamed to another
    const std::vector<std::string> elsewhere = keys_of_name(key.text);
    if (const Key* dotted = schema_.find_key(join(group, key.text))) {
      advice = fmt::format("in a file, write {}: with {}: indented below it", dotted->group(), dotted->leaf());
    } else if (const Key* listed = schema_.find_key(without_indices(path)); listed && listed->path != path) {
      advice = listed->type == Type::numbers || listed->type == Type::strings
                   ? fmt::format("write the whole list: {}=[...]", listed->path)
                   : fmt::format("the key is {}, without a number", listed->path);
    } else if (!synonym.empty()) {
      advice = synonym;
    } else if (schema_.find_key(key.text)) {
      advice = fmt::format("the key is {}, at the top", key.text);
    } else if (elsewhere.size() == 1 && !schema_.find_group(group)) {
      advice = fmt::format("the key is {}", elsewhere[0]);
    } else if (const auto near = nearest(plain_word(key.text), known); near && word && ours) {
      move(join(group, *near), true);
      advice = fmt::format("{} is set already; remove one of them", *near);
      // On a command line the right spelling overrides the file's value.
      const auto other = std::ranges::find(map.members, *near, [](const Member& member) { return member.key.text; });
      const auto typed = [](const KeyText& text) { return text.span.source && text.span.source->command_line; };
      if (other != map.members.end() && typed(other->key) == typed(key))
        places.push_back(place_of(other->key.span, fmt::format("{} is set here", *near)));
    }
    if (synonym.empty() && word && elsewhere.size() == 1) move(elsewhere[0], false);
    Diagnostic diagnostic{
        "E0201",
        fmt::format("there is no key {}{}", in_quotes(key.text), group.empty() ? "" : " in " + printable(group)),
        advice, std::move(places)};
    diagnostic.key = path;
    if (!edits.empty())
      diagnostic.propose = [edits](const Sound& sound) {
        for (const Edit& edit : edits)
          if (sound(edit)) return std::vector<Edit>{edit};
        return std::vector<Edit>{};
      };
    diagnostics_.push_back(std::move(diagnostic));
  }

  const Schema& schema_;
  const bool whole_;
  std::vector<Diagnostic>& diagnostics_;
};

}  // namespace

std::optional<Value> fallback_of(const Key& key) {
  if (key.fallback.empty()) return {};
  std::vector<Diagnostic> none;
  const Source text{"default", key.fallback, false};
  const std::optional<Node> node = read_flow(text, 0, text.text.size(), none);
  return convert(key, *node, node->span, none);
}

Spec fallback_values(const Schema& schema) {
  Spec spec;
  for (const Key& key : schema.keys())
    if (const std::optional<Value> value = fallback_of(key)) key.set(spec, *value);
  return spec;
}

/// Returns whether `value` is a map with a component that is not a key of the group, and the group allows names.
bool has_names(const Schema& schema, const KeyGroup& group, const Node& value) {
  return value.kind == Node::Kind::map && schema.names_in(group.path) &&
         std::ranges::any_of(value.members, [&](const Member& member) {
           const Key* key = schema.find_key(join(group.path, member.key.text));
           return !key || key->type == Type::map;
         });
}

std::optional<Diagnostic> not_a_map(const Schema& schema, const KeyGroup& group, const Node& value) {
  const bool typed = value.span.source && value.span.source->command_line;
  const Node* node = &value;
  const std::string name = leaf_of(group.path);
  std::string code = "E0110", message = fmt::format("{} takes a map", group.path), advice;
  if (group.list_of_one && has_names(schema, group, value)) return {};
  if (group.list_of_one && value.kind != Node::Kind::bad) {
    advice = typed ? fmt::format("write {}.path=tokens-*.bin", group.path)
                   : fmt::format("write {}: [{{path: \"tokens-*.bin\"}}]", name);
    if (value.kind != Node::Kind::list) {
      code = "E0203";
      message = fmt::format("{} takes a list of one source", group.path);
    } else if (value.items.size() != 1) {
      code = "E0207";
      message = fmt::format("{} takes a list of one source, and this list has {}", group.path, value.items.size());
      advice += "; a pattern may match many files";
      if (const Key* names = schema.names_in(group.path)) {
        std::string members;
        for (const Key& member : names->members)
          if (member.leaf() == names->shorthand || member.type == Type::number)
            members += fmt::format("{}{}: ...", members.empty() ? "" : ", ", member.leaf());
        advice += fmt::format("; several have names: {}: {{NAME: {{{}}}, ...}}", name, members);
      }
    } else {
      node = &value.items[0];
    }
  }
  const bool shorthand = !group.shorthand.empty() && node->kind == Node::Kind::scalar;
  if (node->kind == Node::Kind::bad || (code == "E0110" && (node->kind == Node::Kind::map || shorthand))) return {};
  const std::vector<std::string> known = schema.children(group.path);
  const std::string first = known.empty() ? "NAME" : known[0];
  if (advice.empty())
    advice = typed ? fmt::format("write {}.{}=..., or another of its keys", group.path, first)
                   : fmt::format("write its keys below it, indented, such as {}: ...", first);
  Diagnostic diagnostic{code, message, advice, {place_of(node->span)}, group.path};
  // A source that lacks the list around it.
  const Node* path = value.kind == Node::Kind::map && value.members.size() == 1 ? value.find("path") : nullptr;
  if (const auto meant = meant_in(schema, group, path ? *path : *node)) {
    const auto& [key, text] = *meant;
    Edit edit{{*meant}, {}, {}, {}, false, {}};
    if (typed)
      edit.text = fmt::format("write {}={}", key, group.list_of_one ? printable(path ? path->text : node->text) : text);
    else
      edit.text = group.list_of_one ? fmt::format("write {}: [{{path: {}}}]", name, text)
                                    : fmt::format("write {}: {{{}: {}}}", name, leaf_of(key), text);
    diagnostic.propose = any_of({edit});
  }
  return diagnostic;
}

BoundSpec bind_tree(const Node& root, const Source& source, bool whole, std::vector<Diagnostic>& diagnostics,
                    const Schema& schema) {
  Binder binder(schema, schema.defaults(), whole, diagnostics);
  binder.walk(root, "");
  binder.fill_defaults(source);
  return std::move(binder.bound);
}

BoundSpec bind_over(const Values& base, const Node& root, std::vector<Diagnostic>& diagnostics, const Schema& schema) {
  Binder binder(schema, base.spec, false, diagnostics);
  binder.walk(root, "");
  BoundSpec& bound = binder.bound;
  for (const Key& key : schema.keys())  // a value takes the place of the key that it would follow
    if (!key.follows.empty() && bound.given.count(key.path) && !bound.given.count(key.follows))
      schema.find_key(key.follows)->set(bound.spec, Value());
  binder.derive([&](const Key& key) {
    return key.stage == Stage::run_time && (base.derived.count(key.path) > 0 || bound.given.count(key.follows) > 0);
  });
  return std::move(binder.bound);
}

}  // namespace llmc::spec
