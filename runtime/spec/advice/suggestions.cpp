#include "spec/advice/suggestions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "spec/flow_reader.h"
#include "spec/overrides.h"
#include "spec/schema/schema.h"

namespace llmc::spec {
namespace {

using Identity = std::pair<std::string, std::string>;

Identity identity(const Diagnostic& diagnostic) { return {diagnostic.code, diagnostic.key}; }

std::size_t nodes_of(const Node& node) {
  std::size_t count = 1;
  for (const Node& item : node.items) count += nodes_of(item);
  for (const Member& member : node.members) count += nodes_of(member.value);
  return count;
}

/// Map that contains the last component of `path`, or null.
Node* holder(Node& root, const std::vector<std::string>& words) {
  Node* node = &root;
  for (std::size_t i = 0; i + 1 < words.size() && node; ++i) {
    node = find_member(*node, words[i]);
    if (node && node->kind == Node::Kind::list && node->items.size() == 1 && !words[i + 1].starts_with('['))
      node = &node->items[0];
  }
  return node;
}

/// Removes a key from its map.
std::optional<Node> take(Node& root, const std::string& path, const Schema& schema) {
  const std::vector<std::string> words = schema.words_of(path);
  Node* map = holder(root, words);
  if (!map) return {};
  const auto found = std::find_if(map->members.begin(), map->members.end(),
                                  [&](const Member& member) { return member.key.text == words.back(); });
  if (found == map->members.end()) return {};
  Node value = std::move(found->value);
  map->members.erase(found);
  return value;
}

void put(Node& root, const std::string& path, Node value, std::deque<Source>& sources, const Schema& schema) {
  const Source& source = sources.emplace_back(Source{"suggestion", path, true});
  std::vector<KeyText> keys;
  for (const std::string& word : schema.words_of(path)) {
    const std::size_t begin = keys.empty() ? 0 : keys.back().span.end + (word.starts_with('[') ? 0 : 1);
    keys.push_back({word, {&source, begin, begin + word.size()}});
  }
  place_value(root, keys, std::move(value), schema);
}

/// Name of the key in a message: only its last component if that is unambiguous.
std::string name_in(const std::string& path, const std::string& about) {
  if (group_of(path) == group_of(about)) return leaf_of(path);
  const auto same =
      std::count_if(keys().begin(), keys().end(), [&](const Key& k) { return k.leaf() == leaf_of(path); });
  return same == 1 ? leaf_of(path) : path;
}

std::string text_of(const Edit& edit, const std::string& about) {
  if (!edit.text.empty()) return edit.text;
  std::string text;
  for (const auto& [path, value] : edit.write)
    text += fmt::format("{}{}: {}", text.empty() ? "" : " and ", name_in(path, about), value);
  return text;
}

}  // namespace

Propose any_of(std::vector<Edit> edits) {
  return [edits = std::move(edits)](const Sound& sound) {
    std::vector<Edit> good;
    std::copy_if(edits.begin(), edits.end(), std::back_inserter(good), sound);
    return good;
  };
}

std::string advice_of(const std::vector<Edit>& edits, const std::string& key) {
  std::string written, removed;
  const Edit* before = nullptr;
  for (const Edit& edit : edits) {
    if (!edit.from.empty())
      return edit.meant ? fmt::format("did you mean {}?", name_in(edit.to, edit.from)) : edit.text;
    if (edit.meant) return edit.text.empty() ? fmt::format("did you mean {}?", edit.write[0].second) : edit.text;
    if (!edit.remove.empty()) {
      removed = edit.remove == key ? "remove this key" : fmt::format("leave {} out", name_in(edit.remove, key));
    } else if (before && before->text.empty() && edit.text.empty() && edit.write.size() == 1 &&
               before->write.size() == 1 && before->write[0].first == edit.write[0].first) {
      written += " or " + edit.write[0].second;
    } else {
      written += (written.empty() ? edit.text.empty() ? "write " : "" : ", or ") + text_of(edit, key);
    }
    before = &edit;
  }
  if (removed.empty()) return written;
  return written.empty() ? removed : written + ", or " + removed;
}

bool apply_edit(Node& root, const Edit& edit, std::deque<Source>& sources, const Schema& schema) {
  if (!edit.remove.empty() && !take(root, edit.remove, schema)) return false;
  if (!edit.from.empty()) {
    std::optional<Node> value = take(root, edit.from, schema);
    const std::vector<std::string> words = schema.words_of(edit.to);
    Node* map = holder(root, words);
    if (!value) return false;
    // An override may replace a value from the file; nothing else may exist there already.
    const Node* there = map ? find_member(*map, words.back()) : nullptr;
    const auto typed = [](const Node& node) { return node.span.source && node.span.source->command_line; };
    if (there && (!typed(*value) || typed(*there))) return false;
    put(root, edit.to, std::move(*value), sources, schema);
    // An unknown section is removed together with its last key.
    const std::string section = group_of(edit.from);
    const std::vector<std::string> path = schema.words_of(section);
    if (!section.empty() && !schema.find_group(section) && !schema.member_path(section))
      if (Node* above = holder(root, path); above)
        if (const Node* left = above->find(path.back()); left && left->members.empty()) take(root, section, schema);
  }
  for (const auto& [path, value] : edit.write) {
    const std::vector<std::string> words = schema.words_of(path);
    const Node* const map = holder(root, words);
    const Node* const before = map ? map->find(words.back()) : nullptr;
    // The user will change the value where it stands.
    const bool typed = before && before->span.source && before->span.source->command_line;
    const Source& source = sources.emplace_back(Source{"suggestion", value, typed});
    std::vector<Diagnostic> none;
    std::optional<Node> node = read_flow(source, 0, source.text.size(), none);
    if (!node || !none.empty()) return false;
    put(root, path, std::move(*node), sources, schema);
  }
  return true;
}

void suggest(const Node& root, const Examine& examine, const Accept& accept, std::deque<Source>& sources,
             std::vector<Diagnostic>& diagnostics, const Schema& schema) {
  // Each trial copies the tree, so a huge spec gets fewer of them.
  std::ptrdiff_t trials = std::min<std::ptrdiff_t>(4000, 400'000 / static_cast<std::ptrdiff_t>(nodes_of(root)));
  std::set<Identity> before;
  for (const Diagnostic& diagnostic : diagnostics) before.insert(identity(diagnostic));

  for (Diagnostic& diagnostic : diagnostics) {
    if (!diagnostic.propose) continue;
    const auto sound = [&](const Edit& edit, bool must_fit) {
      if (--trials < 0) return false;
      const std::size_t texts = sources.size();
      Node changed = root;
      bool good = apply_edit(changed, edit, sources, schema);
      if (good) {
        const Examined after = examine(changed);
        for (const Diagnostic& error : after.diagnostics) {
          // An error in the value of a misspelt key does not count against the name. Within one of llmc's groups, a
          // matching key of another group may be a coincidence.
          const bool named = !edit.from.empty() && (edit.meant || !schema.find_group(group_of(edit.from)));
          const bool counts = !named || error.code == "E0201";
          if (counts && (identity(error) == identity(diagnostic) || !before.count(identity(error)))) good = false;
        }
        if (good && after.diagnostics.empty() && accept) {
          const Exit planned = accept(after.spec);
          good = planned == Exit::done || (!must_fit && planned == Exit::does_not_fit);
        }
      }
      sources.resize(texts);
      return good;
    };
    std::vector<Edit> edits = diagnostic.propose([&](const Edit& edit) { return sound(edit, true); });
    if (edits.empty() && accept) edits = diagnostic.propose([&](const Edit& edit) { return sound(edit, false); });
    if (!edits.empty()) diagnostic.advice = advice_of(edits, diagnostic.key);
    diagnostic.edits = std::move(edits);
    diagnostic.propose = nullptr;
  }
}

}  // namespace llmc::spec
