// Converts one value: from the text of a node to the type, range and choices of its key.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "spec/advice/synonyms.h"
#include "spec/binder.h"
#include "spec/recompute.h"
#include "spec/scalars.h"
#include "spec/targets.h"

namespace llmc::spec {
namespace {

constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
constexpr std::size_t kLongestPath = 4096, kLongestText = 65536;
constexpr double kLeastNumber = 1e-30;  // far above the least normal fp32 number, which products reach sooner

std::string article(const Node& node) {
  switch (node.kind) {
    case Node::Kind::list: return "a list";
    case Node::Kind::map: return "a map";
    case Node::Kind::scalar: return in_quotes(node.text);
    default: return "nothing";
  }
}

class Converter {
 public:
  Converter(const Key& key, std::vector<Diagnostic>& diagnostics) : key_(key), diagnostics_(diagnostics) {}

  std::optional<Value> convert(const Node& node) {
    switch (key_.type) {
      case Type::integer:
      case Type::bytes: return whole(node);
      case Type::number: return real(node);
      case Type::boolean: return boolean(node);
      case Type::choice: return word(node, key_.words);
      case Type::string: return text(node);
      case Type::numbers: return numbers(node);
      case Type::strings: return strings(node);
      case Type::recompute: return recompute(node);
      case Type::layers: return layer_set(node);
      case Type::list:
      case Type::map: break;  // entries.h converts member by member
    }
    return {};
  }

 private:
  /// `instead`: suggested value as YAML, shown only if it is valid.
  std::nullopt_t fail(const char* code, std::string message, std::string advice, const Node& node,
                      const std::string& instead = {}) {
    std::vector<Edit> edits;
    if (!instead.empty())
      edits.push_back({{{key_.path, in_list(node, instead)}}, {}, {}, {}, false, "write " + instead});
    return report(code, std::move(message), std::move(advice), node, std::move(edits));
  }

  /// `meant`: values, as YAML, of which one was probably meant. Those that are not valid are not shown.
  std::nullopt_t fail_on_slip(const char* code, std::string message, std::string advice, const Node& node,
                              const std::vector<std::string>& meant) {
    std::vector<Edit> edits;
    for (const std::string& value : meant)
      edits.push_back({{{key_.path, in_list(node, value)}}, {}, {}, {}, false, {}});
    if (edits.size() == 1) {
      edits[0].meant = true;
      edits[0].text = fmt::format("did you mean {}?", meant[0]);
    }
    return report(code, std::move(message), std::move(advice), node, std::move(edits));
  }

  std::nullopt_t report(const char* code, std::string message, std::string advice, const Node& node,
                        std::vector<Edit> edits) {
    Diagnostic diagnostic{code, std::move(message), std::move(advice), {place_of(node.span)}};
    diagnostic.key = key_.path;
    if (list_) diagnostic.key += fmt::format("[{}]", &node - list_->items.data());
    if (!list_ && node.kind == Node::Kind::scalar && node.plain && node.text == "default" &&
        key_.type != Type::string) {
      diagnostic.advice = default_advice(key_);
    } else if (!edits.empty()) {
      diagnostic.propose = any_of(std::move(edits));
    }
    diagnostics_.push_back(std::move(diagnostic));
    return std::nullopt;
  }

  /// The whole value with `node` replaced by `instead`, as YAML.
  std::string in_list(const Node& node, const std::string& instead) const {
    if (!list_) return instead;
    std::string text;
    for (const Node& item : list_->items) {
      const std::string own = item.plain ? item.text : nlohmann::json(item.text).dump(-1, ' ', false, kReplace);
      text += (text.empty() ? "" : ", ") + (&item == &node ? instead : own);
    }
    return "[" + text + "]";
  }

  std::nullopt_t wrong_type(const Node& node) {
    std::string advice = "write " + expectation(key_);
    if (node.kind == Node::Kind::scalar && !node.plain) advice += ", without quotes";
    if (key_.type == Type::strings && !key_.or_single)
      advice = "write " + as_typed(node, key_.words.empty() ? example_list(node) : "[" + key_.words[0] + "]");
    if (key_.type == Type::numbers) advice = "write " + as_typed(node, "[0.9, 0.95]");
    return fail("E0203", fmt::format("{} takes {}, not {}", key_.path, expectation(key_), article(node)), advice, node);
  }

  /// A list in place of `node`; on a command line with the quotes that a shell needs.
  std::string as_typed(const Node& node, const std::string& list) const {
    const bool typed = node.span.source && node.span.source->command_line;
    return typed ? fmt::format("'{}={}'", key_.path, list) : fmt::format("{}: {}", key_.leaf(), list);
  }

  /// The text as a list of one; another example if it could not be quoted.
  static std::string example_list(const Node& node) {
    const bool own = node.kind == Node::Kind::scalar && node.text.find('\'') == std::string::npos &&
                     printable(node.text) == node.text;
    return "[" + nlohmann::json(own ? node.text : "Once upon a time").dump() + "]";
  }

  bool is_word(const Node& node) const {
    return node.kind == Node::Kind::scalar &&
           std::find(key_.words.begin(), key_.words.end(), node.text) != key_.words.end();
  }

  /// The rule; for another framework's value also llmc's.
  std::string advice(const Node& node, const std::string& rule) const {
    const std::string ours = our_word(key_.path, node.text);
    return ours.empty() ? rule : fmt::format("llmc calls it {}", ours);
  }

  /// Values that were probably meant by `word`: a synonym, all values that begin with it, or the nearest; or none.
  std::vector<std::string> meant(const std::string& word, const std::vector<std::string>& words) const {
    const std::string ours = our_word(key_.path, word), plain = plain_word(word);
    if (!ours.empty()) return {ours};
    if (std::vector<std::string> begun = begun_by(plain, words); !begun.empty()) return begun;
    const std::optional<std::string> near = nearest(plain, words);
    return near ? std::vector{*near} : std::vector<std::string>();
  }

  /// Returns whether a plain scalar looks like an attempt at a number.
  static bool numeric(const Node& node) {
    const char first = node.text.empty() ? ' ' : node.text[0];
    return (first >= '0' && first <= '9') || ((first == '-' || first == '+' || first == '.') && node.text.size() > 1);
  }

  std::nullopt_t not_a_number(const Node& node) {
    if (key_.words.empty() || node.kind != Node::Kind::scalar || !node.plain) return wrong_type(node);
    return fail_on_slip(
        "E0206", fmt::format("{} takes {}, not {}", key_.path, expectation(key_), in_quotes(node.text)),
        "write " + (key_.type == Type::bytes ? "a size such as 80GiB, or " + either(key_.words) : expectation(key_)),
        node, meant(node.text, key_.words));
  }

  template <typename T>
  std::nullopt_t malformed(const Node& node, const ParsedScalar<T>& scalar) {
    return fail("E0204", fmt::format("{}: the number {} {}", key_.path, in_quotes(node.text), scalar.problem),
                "write " + expectation(key_), node, scalar.instead);
  }

  bool in_range(double value, const Node& node) {
    const bool low = !key_.minimum || (key_.exclusive_minimum ? value > *key_.minimum : value >= *key_.minimum);
    const bool high = !key_.maximum || value <= *key_.maximum;
    if (low && high) return true;
    // Fewer bytes than any program uses: gigabytes were probably meant.
    const bool unit_left_out = key_.type == Type::bytes && !low && value >= 1;
    // Expectations omit a wide bound, and would then name what was written.
    const std::string wide = !high && *key_.maximum >= kWideBound ? bound_text(key_, *key_.maximum) : "";
    const std::string how = wide.empty() ? "out of range" : "more than " + wide;
    std::vector<std::string> gigabytes;
    if (unit_left_out) gigabytes.push_back(fmt::format("{}GiB", value));
    fail_on_slip("E0205", fmt::format("{} is {}, which is {}", key_.path, in_quotes(node.text), how),
                 wide.empty() ? "write " + expectation(key_) : "write at most " + wide, node, gigabytes);
    return false;
  }

  std::optional<Value> whole(const Node& node) {
    if (is_word(node) && node.plain) {
      if (key_.type == Type::bytes) return *device_budget(node.text);
      return node.text;
    }
    if (node.kind != Node::Kind::scalar || !node.plain || !numeric(node)) return not_a_number(node);
    if (key_.or_times && (node.text.ends_with('x') || node.text.ends_with('X'))) return times(node);
    const ParsedScalar<std::int64_t> scalar =
        key_.type == Type::bytes ? parse_bytes(node.text) : parse_integer(node.text);
    if (!scalar.value) return malformed(node, scalar);
    if (!in_range(static_cast<double>(*scalar.value), node)) return {};
    return *scalar.value;
  }

  /// 20x
  std::optional<Value> times(const Node& node) {
    constexpr double kMost = 1e6;
    const ParsedScalar<double> scalar = parse_times(node.text);
    if (!scalar.value) return malformed(node, scalar);
    if (*scalar.value > 0 && *scalar.value <= kMost) return times_text(*scalar.value);
    return fail("E0205", fmt::format("{} is {}, which is out of range", key_.path, in_quotes(node.text)),
                fmt::format("write a multiple above 0x, up to {}", times_text(kMost)), node);
  }

  std::optional<Value> real(const Node& node) {
    if (is_word(node) && node.plain) return node.text;
    if (node.kind != Node::Kind::scalar || !node.plain || !numeric(node)) return not_a_number(node);
    const ParsedScalar<double> scalar = parse_number(node.text);
    if (!scalar.value) return malformed(node, scalar);
    if (!in_range(*scalar.value, node)) return {};
    if (*scalar.value != 0 && std::abs(*scalar.value) < kLeastNumber)
      return fail("E0205", fmt::format("{} is {}, which is too small for fp32", key_.path, in_quotes(node.text)),
                  fmt::format("write {}at least {}", key_.exclusive_minimum ? "" : "0, or ", number_text(kLeastNumber)),
                  node);
    return *scalar.value + 0.0;  // -0.0 and 0.0 are one value
  }

  std::optional<Value> boolean(const Node& node) {
    if (node.kind == Node::Kind::scalar && node.plain) {
      if (node.text == "true") return true;
      if (node.text == "false") return false;
      for (const char* yes : {"yes", "on", "True", "TRUE", "Yes", "On", "1", "y"})
        if (node.text == yes)
          return fail("E0203", fmt::format("{} takes true or false, not {}", key_.path, in_quotes(node.text)),
                      "write true", node, "true");
      for (const char* no : {"no", "off", "False", "FALSE", "No", "Off", "0", "n"})
        if (node.text == no)
          return fail("E0203", fmt::format("{} takes true or false, not {}", key_.path, in_quotes(node.text)),
                      "write false", node, "false");
    }
    return wrong_type(node);
  }

  std::optional<Value> word(const Node& node, const std::vector<std::string>& words) {
    if (node.kind != Node::Kind::scalar) return wrong_type(node);
    if (std::find(words.begin(), words.end(), node.text) != words.end()) return node.text;
    return fail_on_slip("E0206", fmt::format("{} takes {}, not {}", key_.path, either(words), in_quotes(node.text)),
                        advice(node, "write " + either(words)), node, meant(node.text, words));
  }

  /// Rejects control characters; prompts (`multiline`) may contain line feeds and tabs.
  bool clean(const Node& node, std::size_t longest, bool multiline) {
    if (node.text.size() > longest) {
      fail("E0209",
           fmt::format("{} has {} bytes of text, but at most {} are allowed", key_.path, node.text.size(), longest),
           "make it shorter", node);
      return false;
    }
    const bool control = std::any_of(node.text.begin(), node.text.end(), [&](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return (byte < 0x20 && !(multiline && (byte == '\n' || byte == '\t'))) || byte == 0x7f;
    });
    if (control) fail("E0209", fmt::format("{} has a control character", key_.path), "remove it", node);
    return !control;
  }

  std::optional<Value> text(const Node& node) {
    if (node.kind != Node::Kind::scalar) return wrong_type(node);
    if (key_.path == "name") return name(node);
    // "data.tokenizer=" on a command line removes the file's value.
    const bool left_out = node.text.empty() && node.span.source->command_line && (!key_.required || key_.removable());
    if (node.text.empty() && !left_out)
      return fail("E0209", fmt::format("{} is empty", key_.path), "write a path, or leave the key out", node);
    if (!clean(node, kLongestPath, false)) return {};
    return node.text;
  }

  std::optional<Value> name(const Node& node) {
    const auto lower = [](char c) { return c >= 'a' && c <= 'z'; };
    const bool good = !node.text.empty() && node.text.size() <= kLongestName && lower(node.text[0]) &&
                      std::all_of(node.text.begin(), node.text.end(),
                                  [&](char c) { return lower(c) || (c >= '0' && c <= '9') || c == '-'; });
    if (good) return node.text;
    return fail(
        "E0208",
        fmt::format(
            "{} cannot name a run: a name has 1 to {} lower-case letters, digits and hyphens, and begins with a letter",
            in_quotes(node.text), kLongestName),
        "write a name", node, run_name(node.text));
  }

  std::optional<Value> numbers(const Node& node) {
    if (node.kind != Node::Kind::list) return wrong_type(node);
    if (node.items.size() != key_.count)
      return fail("E0207",
                  fmt::format("{} takes {} numbers, and this list has {}", key_.path, key_.count, node.items.size()),
                  "write " + expectation(key_), node);
    std::vector<double> list;
    bool good = true;
    list_ = &node;
    for (const Node& item : node.items) {
      if (item.kind == Node::Kind::bad) {
        good = false;
        continue;
      }
      const std::optional<Value> value = real(item);
      if (value) list.push_back(std::get<double>(*value));
      good = good && value;
    }
    if (!good) return {};
    return list;
  }

  std::optional<Value> list_of_words(const Node& node) {
    std::vector<std::string> list;
    bool good = true;
    list_ = &node;
    for (const Node& item : node.items) {
      if (diagnostics_.size() >= kMaxDiagnostics) return {};
      if (item.kind == Node::Kind::bad) {
        good = false;
      } else if (!key_.words.empty()) {
        const std::optional<Value> value = word(item, key_.words);
        good = good && value;
        if (!value) continue;
        if (key_.type == Type::recompute && std::find(list.begin(), list.end(), item.text) != list.end()) {
          fail("E0206", fmt::format("{} names {} twice", key_.path, in_quotes(item.text)), "remove one of them", item);
          good = false;
        }
        list.push_back(item.text);
      } else if (item.kind != Node::Kind::scalar) {
        fail("E0203", fmt::format("{} takes strings in its list, not {}", key_.path, article(item)),
             "write a string in quotes", item);
        good = false;
      } else if (!clean(item, kLongestText, true)) {
        good = false;
      } else if (item.text.empty()) {
        fail("E0209", fmt::format("{} has an empty string", key_.path), "write a string, or remove it", item);
        good = false;
      } else {
        list.push_back(item.text);
      }
    }
    if (!good) return {};
    return list;
  }

  std::optional<Value> strings(const Node& node) {
    if (key_.or_single && node.kind == Node::Kind::scalar) {
      Node list;
      list.kind = Node::Kind::list;
      list.items.push_back(node);
      return list_of_words(list);
    }
    if (node.kind != Node::Kind::list) return wrong_type(node);
    const bool may_be_empty = key_.fallback == "[]" || (!key_.or_single && key_.words.empty());
    if (!may_be_empty && node.items.empty())
      return fail("E0207", fmt::format("{} is an empty list", key_.path), "write at least one value", node);
    return list_of_words(node);
  }

  /// "[a, b]" for "a,b" or "a", if all parts are values of the key; else empty.
  std::string as_list(std::string text) const {
    std::ranges::replace(text, ',', ' ');
    std::istringstream stream(text);
    std::vector<std::string> list;
    for (std::string word; stream >> word;) {
      if (std::ranges::find(key_.words, word) == key_.words.end()) return "";
      list.push_back(word);
    }
    return list.empty() ? "" : "[" + either(list, ", ") + "]";
  }

  static std::optional<Recompute> recompute_word(const std::string& word) {
    if (word == "auto") return Recompute{.kind = Recompute::Kind::automatic};
    if (word == "none") return Recompute{.kind = Recompute::Kind::none};
    if (word == "full") return Recompute{.kind = Recompute::Kind::full};
    return {};
  }
  static std::optional<Value> recomputed(const std::optional<Value>& words) {
    if (!words) return {};
    return Recompute{.kind = Recompute::Kind::ops, .ops = std::get<std::vector<std::string>>(*words)};
  }

  /// {0-7: full, 8: [norms, swiglu]}
  std::optional<Value> layers(const Node& node) {
    const std::string example = "write {layers: {0-3: full, 4-7: [norms, swiglu]}}";
    if (node.kind == Node::Kind::bad) return {};
    if (node.kind != Node::Kind::map || node.members.empty())
      return fail("E0203", fmt::format("{}: layers takes a map from layers to what they recompute", key_.path), example,
                  node);
    Recompute result{.kind = Recompute::Kind::layers};
    bool good = true;
    for (const auto& [name, value] : node.members) {
      std::optional<RecomputeRange> range = parse_range(name.text);
      if (!range) {
        Node there;
        there.span = name.span;
        return fail("E0205", fmt::format("{}: {} is not a range of layers", key_.path, in_quotes(name.text)),
                    example + ": layers count from 0, and a range includes both ends", there);
      }
      good = what(value, *range) && good;
      result.layers.push_back(std::move(*range));
    }
    if (!good) return {};
    std::ranges::sort(result.layers, {}, &RecomputeRange::first);
    for (std::size_t i = 1; i < result.layers.size(); ++i)
      if (result.layers[i].first <= result.layers[i - 1].last)
        return fail("E0206",
                    fmt::format("{} names layer {} both in {} and in {}", key_.path, result.layers[i].first,
                                range_text(result.layers[i - 1]), range_text(result.layers[i])),
                    "name each layer once", node);
    return result;
  }

  /// Ops that the layers of a range recompute; false, with a diagnostic, if it cannot be parsed.
  bool what(const Node& node, RecomputeRange& range) {
    if (node.kind == Node::Kind::scalar && (node.text == "full" || node.text == "none")) {
      range.full = node.text == "full";
      return true;
    }
    if (node.kind == Node::Kind::bad) return false;
    if (node.kind != Node::Kind::list || node.items.empty()) {
      fail("E0206", fmt::format("{}: layers {} do not accept {}", key_.path, range_text(range), article(node)),
           "write full, none, or a list of " + either(key_.words), node);
      return false;
    }
    const std::optional<Value> words = list_of_words(node);
    list_ = nullptr;
    if (words) range.ops = std::get<std::vector<std::string>>(*words);
    return words.has_value();
  }

  std::optional<Value> recompute(const Node& node) {
    if (node.kind == Node::Kind::scalar) {
      if (const std::optional<Recompute> known = recompute_word(node.text)) return *known;
      const std::string list = as_list(node.text);
      return fail_on_slip("E0206", fmt::format("{} does not accept {}", key_.path, in_quotes(node.text)),
                          "write " + expectation(key_), node,
                          list.empty() ? meant(node.text, {"auto", "none", "full"}) : std::vector<std::string>{list});
    }
    if (node.kind == Node::Kind::list) {
      if (node.items.empty()) return fail("E0207", fmt::format("{} is an empty list", key_.path), "write none", node);
      return recomputed(list_of_words(node));
    }
    if (node.members.size() == 1 && node.members[0].key.text == "layers") return layers(node.members[0].value);
    if (node.members.size() == 1 && node.members[0].key.text.compare(0, 6, "every:") == 0)
      return fail("E0203", fmt::format("{} has no key {}", key_.path, in_quotes(node.members[0].key.text)),
                  fmt::format("write {{every: {}}}, with a blank after the colon", node.members[0].key.text.substr(6)),
                  node);
    if (node.members.size() != 1 || node.members[0].key.text != "every") return wrong_type(node);
    const Node& every = node.members[0].value;
    if (every.kind == Node::Kind::bad) return {};
    if (every.kind == Node::Kind::scalar && every.plain && numeric(every)) {
      const ParsedScalar<std::int64_t> scalar = parse_integer(every.text);
      if (!scalar.value) return malformed(every, scalar);
      if (*scalar.value >= 1) return Recompute{.kind = Recompute::Kind::every, .every = *scalar.value};
    }
    return fail("E0205", fmt::format("{}: every takes an integer of at least 1, not {}", key_.path, article(every)),
                "write every: 2 to recompute every second layer", every);
  }

  /// none, 4, or [3, 7]
  std::optional<Value> layer_set(const Node& node) {
    if (is_word(node) && node.plain) return LayerSet();
    if (node.kind == Node::Kind::scalar) {
      const std::optional<std::int64_t> every = layer(node, 1);
      if (!every) return {};
      return LayerSet{.every = *every, .layers = {}};
    }
    if (node.kind != Node::Kind::list) return wrong_type(node);
    if (node.items.empty()) return fail("E0207", fmt::format("{} is an empty list", key_.path), "write none", node);
    LayerSet set;
    for (const Node& item : node.items) {
      const std::optional<std::int64_t> number = layer(item, 0);
      if (!number) return {};
      set.layers.push_back(*number);
    }
    std::ranges::sort(set.layers);
    const auto twice = std::ranges::adjacent_find(set.layers);
    if (twice == set.layers.end()) return set;
    return fail("E0206", fmt::format("{} names layer {} twice", key_.path, *twice),
                flags_advice(node, set.layers.back() <= 1), node);
  }

  /// One whole number of at least `least`.
  std::optional<std::int64_t> layer(const Node& node, std::int64_t least) {
    if (node.kind == Node::Kind::bad) return {};
    if (node.kind != Node::Kind::scalar || !node.plain || !numeric(node)) return wrong_type(node);
    const ParsedScalar<std::int64_t> scalar = parse_integer(node.text);
    if (!scalar.value) return malformed(node, scalar);
    if (*scalar.value >= least && *scalar.value < kMostLayers) return *scalar.value;
    return fail("E0205", fmt::format("{} takes {}, not {}", key_.path, expectation(key_), article(node)),
                "write " + expectation(key_), node);
  }

  /// A list of 0 and 1 is transformers' spelling, where 1 stands for a layer with RoPE.
  static std::string flags_advice(const Node& node, bool flags) {
    if (!flags) return "name each layer once";
    std::string without;
    for (std::size_t i = 0; i < node.items.size(); ++i)
      if (node.items[i].text == "0") without += fmt::format("{}{}", without.empty() ? "" : ", ", i);
    return without.empty() ? "name the layers without RoPE: in transformers' list of flags, 1 is a layer with RoPE"
                           : fmt::format("write [{}]: in transformers' list of flags, 1 is a layer with RoPE", without);
  }

  static constexpr std::int64_t kMostLayers = 1024;  // of model.num_hidden_layers

  const Key& key_;
  std::vector<Diagnostic>& diagnostics_;
  const Node* list_ = nullptr;  // list whose items are being converted
};

}  // namespace

std::optional<Value> convert(const Key& key, const Node& node, const Span& key_span,
                             std::vector<Diagnostic>& diagnostics) {
  if (node.kind == Node::Kind::bad) return {};
  if (node.kind == Node::Kind::null) {
    diagnostics.push_back({"E0210",
                           fmt::format("{} has no value", key.path),
                           fmt::format("write {}{}", expectation(key), key.required ? "" : ", or leave the key out"),
                           {place_of(key_span)},
                           key.path});
    return {};
  }
  return Converter(key, diagnostics).convert(node);
}

}  // namespace llmc::spec
