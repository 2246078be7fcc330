#include "spec/overrides.h"

#include <fmt/format.h>

#include <map>

#include "spec/binder.h"
#include "spec/flow_reader.h"
#include "spec/schema/schema.h"

namespace llmc::spec {
namespace {

constexpr std::size_t kDeepestKey = 8;  // components of a key path

std::optional<std::vector<KeyText>> split_key(const Schema& schema, const Source& source, std::size_t equals) {
  std::vector<KeyText> words;
  std::size_t begin = 0;
  for (const std::string& word : schema.words_of(source.text.substr(0, equals))) {
    if (!words.empty() && !word.starts_with('[')) ++begin;  // the dot
    if (word.empty() || words.size() == kDeepestKey) return {};
    words.push_back({word, {&source, begin, begin + word.size()}});
    begin += word.size();
  }
  return words;
}

/// Paths and names are taken verbatim, so that `*.bin` needs no second pair of quotes. An empty value removes a path.
bool verbatim(const Schema& schema, const std::string& path, const std::string& text, std::size_t begin) {
  const Key* key = schema.key_of(path);
  if (!key || key->type != Type::string) return false;
  const std::optional<MemberPath> entry = schema.member_path(path);
  if (entry && entry->whole && text.compare(begin, 1, "{") == 0) return false;  // a map in place of the shorthand
  return begin < text.size() ? text[begin] != '"' && text[begin] != '\'' : key->removable();
}

std::optional<Node> read_value(const Schema& schema, const Source& source, const std::string& path, std::size_t begin,
                               std::vector<Diagnostic>& diagnostics) {
  const Span span{&source, begin, source.text.size()};
  const bool as_it_stands = verbatim(schema, path, source.text, begin);
  const auto no_value = [&] {
    const Key* key = schema.key_of(path);
    diagnostics.push_back({"E0411",
                           fmt::format("the override of {} has no value", printable(path)),
                           key ? default_advice(*key) : "write key.path=value",
                           {place_of(span)}});
  };
  if (!as_it_stands && source.text.find_first_not_of(" \t", begin) == std::string::npos) {
    no_value();
    return {};
  }
  if (source.text.find('\n') != std::string::npos) {
    diagnostics.push_back({"E0411",
                           "an override is one line",
                           "write lists as [a, b] and maps as {key: value}",
                           {place_of({&source, 0, 1})}});
    return {};
  }
  if (as_it_stands) {
    Node node;
    node.kind = Node::Kind::scalar;
    node.text = source.text.substr(begin);
    node.span = span;
    for (std::size_t i = begin; i < source.text.size();) {
      const std::size_t length = code_point_length(std::string_view(source.text).substr(i, 4));
      if (length == 0) {
        diagnostics.push_back(
            {"E0102", "the override is not valid UTF-8", "write it in UTF-8", {place_of({&source, i, i + 1})}});
        return {};
      }
      i += length;
    }
    return node;
  }
  const std::size_t before = diagnostics.size();
  if (!check_bytes(source, diagnostics)) return {};
  std::optional<Node> node = read_flow(source, begin, source.text.size(), diagnostics);
  if (!node && diagnostics.size() == before) no_value();
  return node;
}

/// Node of `word` in a map or list, created if missing.
Node& member(Node& node, const KeyText& word) {
  if (Node* found = find_member(node, word.text)) return *found;
  node.members.push_back({word, Node{}});
  return node.members.back().value;
}

Node map_at(const Span& span) {
  Node node;
  node.kind = Node::Kind::map;
  node.span = span;
  return node;
}

/// Replaces a shorthand by the map that it stands for.
void write_out(Node& entry, const std::string& shorthand) {
  Node whole = map_at(entry.span);
  whole.members.push_back({{shorthand, entry.span}, std::move(entry)});
  entry = std::move(whole);
}

}  // namespace

Node* find_member(Node& node, const std::string& word) {
  if (node.kind == Node::Kind::list && word.starts_with('['))
    for (std::size_t i = 0; i < node.items.size(); ++i)
      if (word == fmt::format("[{}]", i)) return &node.items[i];
  return node.find(word);
}

void place_value(Node& root, const std::vector<KeyText>& words, Node value, const Schema& schema) {
  Node* node = &root;
  std::string path;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    path += (i && !words[i].text.starts_with('[') ? "." : "") + words[i].text;
    Node& next = member(*node, words[i]);
    const KeyGroup* group = schema.find_group(path);
    // A user-chosen name is stored in a map, together with the source of an earlier list.
    const Key* names = schema.names_in(path);
    const bool name = group && names && schema.member_path(path + "." + words[i + 1].text);
    if (name && next.kind == Node::Kind::list && next.items.size() == 1) {
      Node item = std::move(next.items[0]);
      next = std::move(item);
    }
    if (group && group->list_of_one && !name && !has_names(schema, *group, next)) {
      if (next.kind != Node::Kind::list || next.items.size() != 1) {
        next = Node{};
        next.kind = Node::Kind::list;
        next.span = words[i].span;
        next.items.emplace_back();
      }
      node = &next.items[0];
    } else {
      node = &next;
    }
    const auto entry = schema.member_path(path);
    const bool item = node->kind == Node::Kind::list && words[i + 1].text.starts_with('[');
    if (entry && entry->whole && entry->member && node->kind == Node::Kind::scalar)
      write_out(*node, entry->row->shorthand);
    else if (node->kind != Node::Kind::map && !item)
      *node = map_at(words[i].span);
  }
  Node& target = member(*node, words.back());
  for (auto& [key, unused] : node->members)
    if (key.text == words.back().text) key.span = words.back().span;
  const auto entry = schema.member_path(path + "." + words.back().text);
  const bool shorter = entry && entry->whole && entry->member && value.kind == Node::Kind::scalar &&
                       !value.text.empty();  // an empty value removes the entry
  if (target.kind == Node::Kind::map && value.kind == Node::Kind::map)
    merge(target, std::move(value));
  else if (target.kind == Node::Kind::map && shorter)
    member(target, {entry->row->shorthand, words.back().span}) = std::move(value);
  else
    target = std::move(value);
}

void merge(Node& base, Node over) {
  for (auto& [key, value] : over.members) {
    bool found = false;
    for (auto& [base_key, base_value] : base.members) {
      if (base_key.text != key.text) continue;
      found = true;
      base_key.span = key.span;
      if (base_value.kind == Node::Kind::map && value.kind == Node::Kind::map)
        merge(base_value, std::move(value));
      else
        base_value = std::move(value);
    }
    if (!found) base.members.push_back({std::move(key), std::move(value)});
  }
  base.span = over.span;
}

void apply_overrides(Node& root, const std::vector<std::string>& overrides, std::deque<Source>& sources,
                     std::vector<Diagnostic>& diagnostics, const Schema& schema) {
  std::map<std::string, Span> seen;
  for (const std::string& text : overrides) {
    if (diagnostics.size() >= kMaxDiagnostics) return;
    const Source& source = sources.emplace_back(Source{"command line", text, true});
    const Span whole{&source, 0, text.size()};
    const std::size_t equals = text.find('=');
    const auto words = equals == std::string::npos ? std::nullopt : split_key(schema, source, equals);
    if (text.size() > kMaxBytes) {
      diagnostics.push_back(
          {"E0103", fmt::format("an override has at most {} bytes", kMaxBytes), "make it shorter", {}});
    } else if (!words) {
      diagnostics.push_back(
          {"E0411", fmt::format("{} is not an override", in_quotes(text)), "write key.path=value", {place_of(whole)}});
    } else if (words->size() == 1 && words->front().text == "phases") {
      diagnostics.push_back(
          {"E0350", "phases cannot be overridden on the command line", "write them in the file", {place_of(whole)}});
    } else if (words->size() == 1 && words->front().text == "extends") {
      diagnostics.push_back(
          {"E0403", "extends cannot be overridden on the command line", "write it in the file", {place_of(whole)}});
    } else {
      const std::string path = text.substr(0, equals);
      const auto [first, fresh] = seen.emplace(schema.canonical(path), whole);
      if (!fresh) {
        diagnostics.push_back({"E0412",
                               fmt::format("{} is overridden twice", printable(path)),
                               "remove one of them",
                               {place_of(whole), place_of(first->second, "the other one")}});
        continue;
      }
      auto value = read_value(schema, source, path, equals + 1, diagnostics);
      const KeyGroup* group = schema.find_group(path);
      if (auto wrong = group && value ? not_a_map(schema, *group, *value) : std::nullopt) {
        diagnostics.push_back(std::move(*wrong));  // the file's keys of the group are kept
      } else if (value) {
        place_value(root, *words, std::move(*value), schema);
      } else {  // already reported: the key counts as given
        Node bad;
        bad.kind = Node::Kind::bad;
        bad.span = whole;
        place_value(root, *words, std::move(bad), schema);
      }
    }
  }
}

}  // namespace llmc::spec
