#include "compiler/spec/yaml_reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

namespace llmc::spec {
namespace {

struct LimitReached {};

/// Builds the tree from yaml-cpp's events. Errors that leave the structure intact are collected, and reading continues.
class TreeBuilder : public YAML::EventHandler {
 public:
  TreeBuilder(const Source& source, std::size_t offset, std::vector<Diagnostic>& diagnostics)
      : source_(source), offset_(offset), diagnostics_(diagnostics) {}

  std::optional<Node> root;

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (++documents_ == 1) return;
    complain("E0108", "a spec is one document, but a second one begins here", "remove it, or move it to its own file",
             at(mark));
    throw LimitReached{};
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    Node node;
    const std::size_t begin = position(mark);
    check_properties(begin);
    node.span = !open_.empty() && open_.back().key ? open_.back().key->span : Span{&source_, begin, begin + 1};
    add(std::move(node));
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    complain("E0104", "aliases are not allowed in a spec",
             "repeat the value, or move the shared part to a file and use `extends`", at(mark));
    Node node;
    node.kind = Node::Kind::bad;
    node.span = at(mark);
    add(std::move(node));
  }

  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string& value) override {
    Node node;
    node.kind = Node::Kind::scalar;
    node.text = value;
    const std::size_t begin = position(mark);
    const bool properties = check_properties(begin);
    node.span = {&source_, begin, scalar_end(begin, value)};
    const char first = begin < source_.text.size() ? source_.text[begin] : ' ';
    if ((first == '"' || first == '\'') && !closed(node.span)) {  // yaml-cpp lets the text end instead
      complain("E0101", "this is not YAML: the quote is not closed", "add the closing quote",
               {&source_, begin, begin + 1});
      throw LimitReached{};
    }
    node.plain = !properties && first != '"' && first != '\'' && first != '|' && first != '>';
    if (properties) node.kind = Node::Kind::bad;
    add(std::move(node));
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    start(Node::Kind::list, mark);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    start(Node::Kind::map, mark);
  }
  void OnSequenceEnd() override { finish(); }
  void OnMapEnd() override { finish(); }

 private:
  struct Open {
    Node node;
    std::optional<KeyText> key;  // read, its value not yet
    bool drop = false;           // the value of a key that was refused
  };

  std::size_t position(const YAML::Mark& mark) const {
    return std::min(offset_ + static_cast<std::size_t>(std::max(mark.pos, 0)), source_.text.size());
  }
  Span at(const YAML::Mark& mark) const { return {&source_, position(mark), position(mark) + 1}; }

  void complain(const char* code, std::string message, std::string advice, const Span& span) {
    diagnostics_.push_back({code, std::move(message), std::move(advice), {place_of(span)}});
    if (diagnostics_.size() >= kMaxDiagnostics) throw LimitReached{};
  }

  /// yaml-cpp's mark of a node is that of its anchor or tag, if it has one.
  bool check_properties(std::size_t begin) {
    if (begin >= source_.text.size()) return false;
    const char first = source_.text[begin];
    if (first != '&' && first != '!') return false;
    const std::size_t end = std::min(source_.text.find_first_of(" \t\r\n,[]{}", begin + 1), source_.text.size());
    const Span span{&source_, begin, end};
    if (first == '&')
      complain("E0104", "anchors are not allowed in a spec",
               "remove it, or move the shared part to a file and use `extends`", span);
    else
      complain("E0105", "tags are not allowed in a spec", "remove it: the schema defines the type of each key", span);
    return true;
  }

  std::size_t scalar_end(std::size_t begin, const std::string& value) const {
    const std::string& text = source_.text;
    if (begin >= text.size()) return begin;
    const char first = text[begin];
    const std::size_t line_end = std::min(text.find('\n', begin), text.size());
    if (first == '"' || first == '\'') {
      for (std::size_t i = begin + 1; i < text.size(); ++i) {
        if (first == '"' && text[i] == '\\') {
          ++i;
        } else if (text[i] == first) {
          if (first == '\'' && i + 1 < text.size() && text[i + 1] == '\'')
            ++i;
          else
            return i + 1;
        }
      }
      return begin + 1;  // not closed
    }
    if (first != '|' && first != '>' && !value.empty() && text.compare(begin, value.size(), value) == 0)
      return begin + value.size();
    return line_end;
  }

  bool closed(const Span& span) const {
    return span.end >= span.begin + 2 && source_.text[span.end - 1] == source_.text[span.begin];
  }

  void count(const Span& span) {
    if (++nodes_ <= kMaxNodes) return;
    complain("E0103", fmt::format("the spec has more than {} keys and values", kMaxNodes), "make it smaller", span);
    throw LimitReached{};
  }

  void start(Node::Kind kind, const YAML::Mark& mark) {
    Node node;
    node.kind = kind;
    const std::size_t begin = position(mark);
    if (check_properties(begin)) node.kind = kind;
    node.span = {&source_, begin, begin + 1};
    count(node.span);
    if (static_cast<int>(open_.size()) >= kMaxDepth) {
      complain("E0103", fmt::format("lists and maps are nested more than {} deep", kMaxDepth), "use less nesting",
               node.span);
      throw LimitReached{};
    }
    open_.push_back({std::move(node), {}, false});
  }

  void finish() {
    Node node = std::move(open_.back().node);
    open_.pop_back();
    const std::string& text = source_.text;
    const char first = node.span.begin < text.size() ? text[node.span.begin] : ' ';
    std::size_t end = std::max(node.span.end, last_end_);
    if (first == '[' || first == '{')
      end = std::min(text.find_first_of("]}", std::max(node.span.begin + 1, last_end_)), text.size() - 1) + 1;
    node.span.end = std::max(node.span.end, end);
    add(std::move(node), false);
  }

  void add(Node node, bool counted = true) {
    if (counted) count(node.span);
    last_end_ = std::max(last_end_, node.span.end);
    if (open_.empty()) {
      root = std::move(node);
      return;
    }
    Open& parent = open_.back();
    if (parent.node.kind == Node::Kind::list) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.key) {
      take_key(parent, std::move(node));
    } else {
      if (!parent.drop) parent.node.members.push_back({std::move(*parent.key), std::move(node)});
      parent.key.reset();
      parent.drop = false;
    }
  }

  void take_key(Open& parent, Node node) {
    parent.key = KeyText{node.text, node.span};
    if (node.kind != Node::Kind::scalar) {
      parent.drop = true;
      if (node.kind != Node::Kind::bad) complain("E0109", "a key is one plain word", "write `key: value`", node.span);
    } else if (node.text == "<<" && node.plain) {
      parent.drop = true;
      complain("E0106", "merge keys are not allowed in a spec",
               "move the shared part to a file and use `extends: base.yaml`", node.span);
    } else if (const auto same = std::find_if(parent.node.members.begin(), parent.node.members.end(),
                                              [&](const auto& member) { return member.key.text == node.text; });
               same != parent.node.members.end()) {
      parent.drop = true;
      complain("E0107", fmt::format("the key {} is set twice", in_quotes(node.text)), "remove one of them", node.span);
      diagnostics_.back().places.push_back(place_of(same->key.span, "it is first set here"));
    }
  }

  const Source& source_;
  const std::size_t offset_;
  std::vector<Diagnostic>& diagnostics_;
  std::vector<Open> open_;
  std::size_t nodes_ = 0, last_end_ = 0;
  int documents_ = 0;
};

Diagnostic not_yaml(const Source& source, std::size_t position, const std::string& reason) {
  const std::string& text = source.text;
  const Location place = place_of({&source, position, position + 1});
  if (position < text.size() && text[position] == '*')
    return {"E0104", "aliases are not allowed in a spec", "put quotes around text that begins with *", {place}};
  const std::size_t line = position == 0 ? 0 : text.rfind('\n', position - 1) + 1;  // npos + 1 is 0
  const std::size_t tab = text.find_first_not_of(' ', line);
  if (tab < text.size() && text[tab] == '\t')
    return {"E0101",
            "this is not YAML: the line is indented with a tab",
            "indent with blanks",
            {place_of({&source, tab, tab + 1})}};
  return {"E0101",
          fmt::format("this is not YAML: {}", printable(reason)),
          "check indentation, quotes, brackets and the blank after each colon",
          {place}};
}

}  // namespace

std::optional<Node> read_yaml(const Source& source, std::vector<Diagnostic>& diagnostics, std::size_t offset) {
  if (!check_bytes(source, diagnostics)) return {};
  TreeBuilder builder(source, offset, diagnostics);
  try {
    std::istringstream stream(source.text.substr(offset));
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
    return std::move(builder.root);
  } catch (const LimitReached&) {
  } catch (const YAML::Exception& error) {
    const std::size_t position =
        error.mark.is_null()
            ? offset
            : std::min(offset + static_cast<std::size_t>(std::max(error.mark.pos, 0)), source.text.size());
    diagnostics.push_back(not_yaml(source, position, error.msg));
  }
  return {};
}

}  // namespace llmc::spec
