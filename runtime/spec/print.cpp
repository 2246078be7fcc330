#include "spec/print.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "spec/fingerprint.h"
#include "spec/recompute.h"
#include "spec/targets.h"

namespace llmc::spec {
namespace {

using Json = nlohmann::ordered_json;

/// Returns whether the group is written as the value of its shorthand key, because no other key of it is used.
bool is_shorthand(const Schema& schema, const KeyGroup& group, const Spec& spec) {
  if (group.shorthand.empty()) return false;
  for (const Key& key : schema.keys())
    if (key.group() == group.path && key.leaf() != group.shorthand && schema.applies(key, spec)) return false;
  return true;
}

Json recompute_json(const Recompute& recompute) {
  switch (recompute.kind) {
    case Recompute::Kind::none: return "none";
    case Recompute::Kind::full: return "full";
    case Recompute::Kind::automatic: return "auto";
    case Recompute::Kind::every: return {{"every", recompute.every}};
    case Recompute::Kind::ops: return recompute.ops;
    case Recompute::Kind::layers: break;
  }
  Json ranges = Json::object();
  for (const RecomputeRange& range : recompute.layers) {
    Json& what = ranges[range_text(range)];
    if (range.full || range.ops.empty())
      what = range.full ? "full" : "none";
    else
      what = range.ops;
  }
  return {{"layers", ranges}};
}

Json value_json(const Key& key, const Value& value);

Json entry_json(const Key& row, const Entry& entry) {
  if (is_short(row, entry)) return value_json(*row.member(row.shorthand), value_in(entry, *row.member(row.shorthand)));
  Json members = Json::object();
  for (const Key& member : row.members)
    if (const Value value = value_in(entry, member); present(value)) members[member.leaf()] = value_json(member, value);
  return members;
}

Json value_json(const Key& key, const Value& value) {
  return std::visit(
      [&key](const auto& v) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(v)>, std::monostate>)
          return nullptr;
        else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, Entries>) {
          Json entries = key.type == Type::map ? Json::object() : Json::array();
          for (const Entry& entry : v)
            (key.type == Type::map ? entries[entry.name] : entries.emplace_back()) = entry_json(key, entry);
          return entries;
        } else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, Recompute>)
          return recompute_json(v);
        else if constexpr (std::is_same_v<std::decay_t<decltype(v)>, LayerSet>)
          return v.every ? Json(v.every) : Json(v.layers);
        else
          return v;
      },
      value);
}

Json bound_json(const Key& key, double bound) {
  if (key.type == Type::integer || key.type == Type::bytes) return static_cast<std::int64_t>(bound);
  return bound;
}

class YamlPrinter {
 public:
  /// `comment`: written after the value of a key, or of an entry's member at the path; empty: none.
  YamlPrinter(const Schema& schema, const Spec& spec,
              const std::function<std::string(const Key&, const std::string&)>& comment)
      : schema_(schema), spec_(spec), comment_(comment) {}

  std::string print(const std::function<bool(const Key&)>& wanted) {
    for (const Key& key : schema_.keys()) {
      const Value value = key.get(spec_);
      const bool absent = !present(value) && key.type != Type::strings;
      if (absent || !schema_.applies(key, spec_) || (wanted && !wanted(key))) continue;
      const KeyGroup* group = schema_.find_group(key.group());
      if (group && key.leaf() == group->shorthand && is_shorthand(schema_, *group, spec_)) {
        const std::size_t dot = group->path.rfind('.');
        open(group->path.substr(0, dot));
        line(group->path.substr(dot + 1), key, value, key.path);
      } else if (const auto* list = std::get_if<Entries>(&value)) {
        open(key.group());
        entries(key, *list);
      } else {
        open(key.group());
        line(key.leaf(), key, value, key.path);
      }
    }
    return std::move(text_);
  }

 private:
  /// Prints a map's entries under their names, and a list's as items below its key.
  void entries(const Key& row, const Entries& list) {
    const bool map = row.type == Type::map;
    if (!map) heading(row.leaf());
    for (std::size_t i = 0; i < list.size(); ++i) {
      const std::string place = row.path_of(list, i);
      if (is_short(row, list[i])) {
        const Key& member = *row.member(row.shorthand);
        line(list[i].name, member, value_in(list[i], member), place);
        continue;
      }
      if (map) heading(list[i].name);
      ++depth_;
      item_ = list_ = !map;
      for (const Key& member : row.members)
        if (const Value value = value_in(list[i], member); present(value))
          line(member.leaf(), member, value, row.path_of(place, member));
      list_ = false;
      --depth_;
    }
  }

  void heading(const std::string& name) { text_ += fmt::format("{:{}}{}:\n", "", depth_ * 2, name); }

  /// Writes the headings of `group` that are not open yet.
  void open(const std::string& group) {
    item_ = false;
    if (group == group_) return;
    std::string path;
    std::size_t depth = 0;
    for (std::size_t begin = 0; begin < group.size(); ++depth) {
      const std::size_t end = std::min(group.find('.', begin), group.size());
      path = group.substr(0, end);
      if (group_ != path && group_.compare(0, path.size() + 1, path + ".") != 0)
        text_ += fmt::format("{:{}}{}:\n", "", depth * 2, group.substr(begin, end - begin));
      begin = end + 1;
    }
    const KeyGroup* found = schema_.find_group(group);
    const Key* names = schema_.names_in(group);
    list_ = found && found->list_of_one && !(names && present(names->get(spec_)));
    item_ = list_;
    depth_ = depth;
    group_ = group;
  }

  void line(const std::string& name, const Key& key, const Value& value, const std::string& path) {
    std::string indent(depth_ * 2, ' ');
    if (list_) indent += item_ ? "- " : "  ";
    item_ = false;
    std::string text = fmt::format("{}{}: {}", indent, name, value_text(key, value));
    if (const std::string comment = comment_(key, path); !comment.empty()) {
      constexpr std::size_t kCommentColumn = 48;
      text += std::string(text.size() < kCommentColumn ? kCommentColumn - text.size() : 1, ' ') + " " + comment;
    }
    text_ += text + "\n";
  }

  const Schema& schema_;
  const Spec& spec_;
  const std::function<std::string(const Key&, const std::string&)>& comment_;
  std::string text_, group_;
  std::size_t depth_ = 0;
  bool list_ = false, item_ = false;
};

}  // namespace

const char* type_name(Type type) {
  switch (type) {
    case Type::integer: return "integer";
    case Type::number: return "number";
    case Type::boolean: return "boolean";
    case Type::string: return "string";
    case Type::strings: return "strings";
    case Type::choice: return "choice";
    case Type::bytes: return "bytes";
    case Type::numbers: return "numbers";
    case Type::recompute: return "recompute";
    case Type::layers: return "layers";
    case Type::list: return "list";
    case Type::map: return "map";
  }
  return "";
}

std::string to_yaml(const Resolved& resolved, bool with_origins, const Schema& schema) {
  const auto origin = [&](const Key&, const std::string& path) {
    return with_origins ? "# " + resolved.origin_of(path).text() : std::string();
  };
  return YamlPrinter(schema, resolved.spec, origin).print({});
}

std::string to_yaml(const Values& values, const std::function<bool(const Key&)>& wanted, const Schema& schema) {
  const auto derivation = [&](const Key& key, const std::string& path) {
    return !key.derivation.empty() && values.derived.count(path) ? kDerivedMark + key.derivation : std::string();
  };
  return YamlPrinter(schema, values.spec, derivation).print(wanted);
}

std::string keys_json(const Resolved& resolved) {
  Json list = Json::array();
  for (const Key& key : keys()) {
    Json entry;
    entry["key"] = key.path;
    entry["value"] = value_json(key, key.get(resolved.spec));
    entry["run_time"] = key.stage == Stage::run_time;
    entry["type"] = type_name(key.type);
    if (key.is_path) entry["path"] = true;
    if (key.minimum) entry["min"] = bound_json(key, *key.minimum);
    if (key.maximum) entry["max"] = bound_json(key, *key.maximum);
    if (key.exclusive_minimum) entry["exclusive_min"] = true;
    if (!key.words.empty()) entry["choices"] = key.words;
    if (key.count) entry["count"] = key.count;
    list.push_back(std::move(entry));
  }
  return list.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";  // of paths in a folder of any name
}

}  // namespace llmc::spec
