#include "spec/entries.h"

#include <fmt/format.h>

#include <algorithm>

#include "spec/advice/synonyms.h"

namespace llmc::spec {
namespace {

/// Reads one entry. Messages name it by `place`, its path.
class EntryReader {
 public:
  EntryReader(const Key& row, const std::string& place, BoundSpec& bound, std::vector<Diagnostic>& diagnostics)
      : row_(row), place_(place), bound_(bound), diagnostics_(diagnostics) {}

  /// Returns whether the entry is valid; errors are added to the diagnostics.
  bool read(const Node& node, const Span& key_span, Entry& entry) {
    bound_.key_spans[place_] = key_span;
    if (node.kind == Node::Kind::bad) return false;
    if (node.kind != Node::Kind::map) {
      if (const Key* member = row_.member(row_.shorthand)) return set(*member, node, key_span, entry);
      fail("E0110", fmt::format("{} takes a map", place_),
           fmt::format("write its keys in braces, such as {{{}: ...}}", row_.members[0].leaf()), node.span, place_);
      return false;
    }
    bool good = true;
    for (const auto& [key, value] : node.members) {
      if (diagnostics_.size() >= kMaxDiagnostics) return false;
      const Key* member = row_.member(key.text);
      if (member)
        good = set(*member, value, key.span, entry) && good;
      else
        good = unknown(key);
    }
    return good && complete(node, entry);
  }

 private:
  void fail(const char* code, std::string message, std::string advice, const Span& span, std::string key,
            Propose propose = {}) {
    diagnostics_.push_back({code, std::move(message), std::move(advice), {place_of(span)}, std::move(key)});
    diagnostics_.back().propose = std::move(propose);
  }

  bool set(const Key& member, const Node& node, const Span& key_span, Entry& entry) {
    Key one = member;
    one.path = row_.path_of(place_, member);
    bound_.members[one.path] = node.span;
    bound_.key_spans[one.path] = key_span;
    std::optional<Value> value = convert(one, node, key_span, diagnostics_);
    if (value) entry.values[member.leaf()] = std::move(*value);
    return value.has_value();
  }

  bool unknown(const KeyText& key) {
    std::vector<std::string> words;
    for (const Key& member : row_.members) words.push_back(member.leaf());
    Propose propose;
    if (const auto near = nearest(plain_word(key.text), words))
      propose = any_of({{{}, {}, place_ + "." + key.text, place_ + "." + *near, true, {}}});
    fail("E0201", fmt::format("there is no key {} in {}", in_quotes(key.text), place_),
         fmt::format("{} {}", words.size() == 1 ? "the only key here is" : "the keys here are", either(words, " and ")),
         key.span, place_ + "." + key.text, std::move(propose));
    return false;
  }

  bool complete(const Node& node, const Entry& entry) {
    bool whole = !node.members.empty();
    if (!whole)
      fail("E0203", fmt::format("{} is an empty map", place_),
           fmt::format("write its keys, such as {{{}: ...}}", row_.members[0].leaf()), node.span, place_);
    for (const Key& member : row_.members) {
      if ((!member.required && member.leaf() != row_.shorthand) || entry.values.count(member.leaf())) continue;
      fail("E0202", fmt::format("{} has no {}", place_, member.leaf()),
           fmt::format("add `{}: {}` to it", member.leaf(), expectation(member)), node.span,
           row_.path_of(place_, member));
      whole = false;
    }
    return whole;
  }

  const Key& row_;
  const std::string place_;
  BoundSpec& bound_;
  std::vector<Diagnostic>& diagnostics_;
};

/// Entry with the defaults of its members.
Entry new_entry(const Key& row, const std::string& name) {
  Entry entry{name, {}};
  for (const Key& member : row.members)
    if (std::optional<Value> value = fallback_of(member)) entry.values[member.leaf()] = std::move(*value);
  return entry;
}

}  // namespace

void read_list(const Key& row, const Node& node, const Span& key_span, BoundSpec& bound,
               std::vector<Diagnostic>& diagnostics) {
  bound.given[row.path] = node.span;
  if (node.kind == Node::Kind::bad) {
    bound.bad.insert(row.path);
    return;
  }
  const auto typed = [](const Member& member) { return member.key.span.source->command_line; };
  const bool changes = node.kind == Node::Kind::map && std::ranges::all_of(node.members, typed);
  if (node.kind != Node::Kind::list && !changes) {
    bound.bad.insert(row.path);
    diagnostics.push_back({"E0203",
                           fmt::format("{} takes a list of maps", row.path),
                           fmt::format("write {}: [{{{}: ...}}]", row.leaf(), row.members[0].leaf()),
                           {place_of(node.kind == Node::Kind::null ? key_span : node.span)},
                           row.path});
    return;
  }
  Entries entries = changes ? std::get<Entries>(row.get(bound.spec)) : Entries(node.items.size(), new_entry(row, ""));
  bool good = true;
  const auto read = [&](std::size_t i, const Node& item, const Span& span) {
    good = EntryReader(row, row.path_of(entries, i), bound, diagnostics).read(item, span, entries[i]) && good;
  };
  for (std::size_t i = 0; i < node.items.size(); ++i) read(i, node.items[i], node.items[i].span);
  for (const auto& [key, value] : node.members) {
    std::size_t index = 0;
    while (index < entries.size() && key.text != fmt::format("[{}]", index)) ++index;
    if (index < entries.size()) {
      read(index, value, key.span);
      continue;
    }
    good = false;
    diagnostics.push_back({"E0201",
                           fmt::format("there is no {}{}", row.path, printable(key.text)),
                           entries.empty()
                               ? fmt::format("{} is an empty list", row.path)
                               : fmt::format("the last one is {}", row.path_of(entries, entries.size() - 1)),
                           {place_of(key.span)},
                           row.path + key.text});
  }
  if (good)
    row.set(bound.spec, entries);
  else
    bound.bad.insert(row.path);
}

void read_named(const Key& row, const Node& node, const KeyText& key, BoundSpec& bound,
                std::vector<Diagnostic>& diagnostics) {
  bound.given[row.path] = node.span;
  Entries entries = std::get<Entries>(row.get(bound.spec));
  auto entry = std::ranges::find(entries, key.text, &Entry::name);
  if (entry == entries.end()) entry = entries.insert(entry, new_entry(row, key.text));
  const std::string place = row.path_of(entries, static_cast<std::size_t>(entry - entries.begin()));
  if (!EntryReader(row, place, bound, diagnostics).read(node, key.span, *entry)) {
    bound.bad.insert(row.path);
    return;
  }
  if (const Key* member = row.member(row.shorthand); member && !present(value_in(*entry, *member)))
    entries.erase(entry);
  row.set(bound.spec, entries);
}

}  // namespace llmc::spec
