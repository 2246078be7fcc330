#include "spec/flow_reader.h"

#include <fmt/format.h>

#include <cstring>

namespace llmc::spec {
namespace {

struct NotYaml {};

void add_utf8(std::string& text, std::uint32_t code) {
  const auto put = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (code < 0x80) {
    put(code);
  } else if (code < 0x800) {
    put(0xc0 | code >> 6), put(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    put(0xe0 | code >> 12), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
  } else {
    put(0xf0 | code >> 18), put(0x80 | (code >> 12 & 0x3f)), put(0x80 | (code >> 6 & 0x3f)), put(0x80 | (code & 0x3f));
  }
}

class Reader {
 public:
  Reader(const Source& source, std::size_t begin, std::size_t end, std::vector<Diagnostic>& diagnostics)
      : source_(source), text_(std::string_view(source.text).substr(0, end)), at_(begin), diagnostics_(diagnostics) {}

  Node whole() {
    Node node = value(0);
    skip();
    if (at_ < text_.size()) fail("this is not YAML: there is text after the value", "quote it, or remove it");
    return node;
  }

 private:
  [[noreturn]] void fail(std::string message, std::string advice, const char* code = "E0101") {
    const std::size_t at = std::min(at_, text_.size());
    diagnostics_.push_back({code, std::move(message), std::move(advice), {place_of({&source_, at, at + 1})}});
    throw NotYaml{};
  }

  bool blank(std::size_t at) const {
    return at >= text_.size() || text_[at] == ' ' || text_[at] == '\t' || text_[at] == '\r';
  }
  /// Skips blanks, and a comment, which extends to the end.
  void skip() {
    while (at_ < text_.size() && blank(at_)) ++at_;
    if (at_ < text_.size() && text_[at_] == '#' && (at_ == 0 || blank(at_ - 1))) at_ = text_.size();
  }

  Node value(int depth) {
    skip();
    if (depth > kMaxDepth)
      fail(fmt::format("lists and maps are nested more than {} deep", kMaxDepth), "use less nesting", "E0103");
    if (++nodes_ > kMaxNodes)
      fail(fmt::format("the spec has more than {} keys and values", kMaxNodes), "make it smaller", "E0103");
    Node node;
    node.span = {&source_, at_, std::min(at_ + 1, source_.text.size())};
    const char first = at_ < text_.size() ? text_[at_] : ' ';
    if (first == '[' || first == '{')
      collection(node, depth, first == '[' ? ']' : '}');
    else if (first == '"' || first == '\'')
      quoted(node, first);
    else
      plain(node, depth > 0);
    node.span.end = std::max(node.span.end, at_);
    return node;
  }

  void collection(Node& node, int depth, char close) {
    const bool list = close == ']';
    node.kind = list ? Node::Kind::list : Node::Kind::map;
    ++at_;
    for (bool more = true;; more = false) {
      skip();
      if (at_ >= text_.size())
        fail(fmt::format("this is not YAML: the {} is not closed", list ? "list" : "map"),
             fmt::format("add {}", close));
      if (text_[at_] == close) break;
      if (!more) {
        if (text_[at_] != ',')
          fail(fmt::format("this is not YAML: expected a comma or {} here", close), "check quotes and brackets");
        ++at_;
        skip();
        if (at_ < text_.size() && text_[at_] == close) break;  // YAML allows a comma before the closing bracket
      }
      if (at_ < text_.size() && text_[at_] == ',')
        fail("this is not YAML: there is no value before the comma", "remove it");
      if (list)
        node.items.push_back(value(depth + 1));
      else
        member(node, depth);
    }
    ++at_;
  }

  void member(Node& map, int depth) {
    Node key = value(depth + 1);
    skip();
    if (key.kind != Node::Kind::scalar) {
      at_ = key.span.begin;
      fail("a key is one plain word", "write {key: value}", "E0109");
    }
    if (key.text == "<<" && key.plain) {
      at_ = key.span.begin;
      fail("merge keys are not allowed in a spec", "move the shared part to a file and use `extends: base.yaml`",
           "E0106");
    }
    if (at_ >= text_.size() || text_[at_] != ':') {
      const std::size_t colon = key.plain ? key.text.find(':') : std::string::npos;
      at_ = key.span.begin;
      if (colon != std::string::npos)
        fail("this is not YAML: expected a blank after the colon",
             fmt::format("write {{{}: {}}}", key.text.substr(0, colon), key.text.substr(colon + 1)));
      fail("this is not YAML: a key without a value", "write {key: value}");
    }
    ++at_;
    if (map.find(key.text)) {
      at_ = key.span.begin;
      fail(fmt::format("the key {} is set twice", in_quotes(key.text)), "remove one of them", "E0107");
    }
    map.members.push_back({{key.text, key.span}, value(depth + 1)});
  }

  void plain(Node& node, bool inside) {
    const std::size_t begin = at_;
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    if (first == '*') fail("aliases are not allowed in a spec", "put quotes around text that begins with *", "E0104");
    if (first == '&') fail("anchors are not allowed in a spec", "put quotes around text that begins with &", "E0104");
    if (first == '!')
      fail("tags are not allowed in a spec", "remove it: the schema defines the type of each key", "E0105");
    if (first != '\0' && std::strchr(inside ? "@`%|>" : "@`%|>,]}", first))
      fail(fmt::format("this is not YAML: a plain value cannot begin with {}", first), "put quotes around it");
    const std::string_view three = text_.substr(std::min(at_, text_.size()), 3);
    if (!inside && (three == "---" || three == "...") && blank(at_ + 3))
      fail("a spec is one document, but this begins or ends a document", "put quotes around it", "E0108");
    if ((first == '-' || first == '?') && blank(at_ + 1))
      fail("this is not YAML: write lists in brackets here", "write [a, b]");
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (inside && std::strchr(",[]{}", c)) break;
      if (c == '#' && at_ > begin && blank(at_ - 1)) break;
      const bool ends = blank(at_ + 1) || (inside && std::strchr(",[]{}", text_[at_ + 1]));
      if (c != ':' || !ends) continue;
      if (inside) break;
      fail("this is not YAML: write maps in braces here", "write {key: value}");
    }
    std::size_t end = at_;
    while (end > begin && blank(end - 1)) --end;
    node.text = std::string(text_.substr(begin, end - begin));
    node.span.end = std::max(end, std::min(begin + 1, source_.text.size()));
    at_ = end;
    const bool null =
        node.text.empty() || node.text == "~" || node.text == "null" || node.text == "Null" || node.text == "NULL";
    node.kind = null ? Node::Kind::null : Node::Kind::scalar;
    if (null) node.text.clear();
  }

  void quoted(Node& node, char quote) {
    node.kind = Node::Kind::scalar;
    node.plain = false;
    const std::size_t begin = at_++;
    for (;; ++at_) {
      if (at_ >= text_.size()) {
        at_ = begin;
        fail("this is not YAML: the quote is not closed", "add the closing quote");
      }
      if (quote == '"' && text_[at_] == '\\') {
        ++at_;
        escape(node.text);
      } else if (text_[at_] != quote) {
        node.text += text_[at_];
      } else if (quote == '\'' && at_ + 1 < text_.size() && text_[at_ + 1] == '\'') {
        node.text += text_[at_++];
      } else {
        break;
      }
    }
    ++at_;
  }

  /// Leaves at_ at the last character of the escape.
  void escape(std::string& out) {
    constexpr std::string_view kNames = "nt\\\"/0abefrv ", kMeans("\n\t\\\"/\0\a\b\x1b\f\r\v ", 13);
    const char name = at_ < text_.size() ? text_[at_] : '\0';
    if (const std::size_t found = kNames.find(name); name != '\0' && found < kMeans.size()) {
      out += kMeans[found];
      return;
    }
    const std::size_t digits = name == 'x' ? 2 : name == 'u' ? 4 : name == 'U' ? 8 : 0;
    std::uint32_t code = 0;
    bool good = digits > 0;
    for (std::size_t i = 1; good && i <= digits; ++i) {
      const char c = at_ + i < text_.size() ? text_[at_ + i] : '\0';
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                               : -1;
      good = digit >= 0;
      code = code << 4 | static_cast<std::uint32_t>(digit & 15);
    }
    if (!good || code > 0x10ffff || (code >= 0xd800 && code < 0xe000))
      fail("this is not YAML: unknown escape", "write \\\\ for a backslash inside double quotes");
    add_utf8(out, code);
    at_ += digits;
  }

  const Source& source_;
  const std::string_view text_;
  std::size_t at_;
  std::size_t nodes_ = 0;
  std::vector<Diagnostic>& diagnostics_;
};

}  // namespace

std::optional<Node> read_flow(const Source& source, std::size_t begin, std::size_t end,
                              std::vector<Diagnostic>& diagnostics) try {
  return Reader(source, begin, end, diagnostics).whole();
} catch (const NotYaml&) {
  return {};
}

}  // namespace llmc::spec
