#include "spec/source.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "compiler/spec/codes.h"
#include "compiler/spec/yaml_reader.h"

namespace llmc::spec {
namespace {

std::string spelled(const Node& node) {
  return node.span.source->text.substr(node.span.begin, node.span.end - node.span.begin);
}

TEST(Utf8, StrictForms) {
  for (const char* good : {"a", "\x7f", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xef\xbf\xbf",
                           "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
    EXPECT_EQ(code_point_length(good), std::string(good).size()) << good;
  for (const char* bad : {"\x80", "\xc0\xaf", "\xc1\xbf", "\xe0\x9f\xbf", "\xed\xa0\x80", "\xf0\x8f\xbf\xbf",
                          "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82", "\xff"})
    EXPECT_EQ(code_point_length(bad), 0u) << bad;
}

TEST(Printable, NothingReachesTheTerminal) {
  EXPECT_EQ(printable("a\x1b[31m\x07\r b\x7f"), "a\\x1b[31m\\x07\\x0d b\\x7f");
  EXPECT_EQ(printable("a\nb\tc"), "a b c");
  EXPECT_EQ(printable(std::string("\0\\", 2)), "\\x00\\");
  EXPECT_EQ(printable("\xc2\x9b"
                      "x"),
            "\\xc2\\x9bx");  // C1 control: CSI in one character
  EXPECT_EQ(printable("\xe2\x80\xae"
                      "x"),
            "\\xe2\\x80\\xaex");  // right-to-left override
  EXPECT_EQ(printable("\xe2\x81\xa6\xe2\x81\xaa"), "\\xe2\\x81\\xa6\xe2\x81\xaa");
  EXPECT_EQ(printable("\xff\xc3\xa9\xe2\x82"), "\\xff\xc3\xa9\\xe2\\x82");
  EXPECT_EQ(in_quotes(std::string(59, 'x') + "\xc3\xa9y"),
            '"' + std::string(59, 'x') + "...\"");  // never half of a character
}

TEST(YamlReader, SpansAreTheTextOfEachValue) {
  const Source source{
      "a.yaml",
      "é: ü\nplain: some words # comment\nquoted: \"a\\\"b\"\nsingle: 'it''s'\nlist: [1, [2, 3]]\nmap: {a: 1}\n"};
  std::vector<Diagnostic> diagnostics;
  const auto root = read_yaml(source, diagnostics);
  ASSERT_TRUE(root && diagnostics.empty()) << render(diagnostics);
  EXPECT_EQ(spelled(*root->find("é")), "ü");
  EXPECT_EQ(spelled(*root->find("plain")), "some words");
  EXPECT_EQ(spelled(*root->find("quoted")), "\"a\\\"b\"");
  EXPECT_EQ(root->find("quoted")->text, "a\"b");
  EXPECT_FALSE(root->find("quoted")->plain);
  EXPECT_EQ(spelled(*root->find("single")), "'it''s'");
  EXPECT_EQ(spelled(*root->find("list")), "[1, [2, 3]]");
  EXPECT_EQ(spelled(*root->find("map")), "{a: 1}");
  const Position position = position_of(source, root->find("é")->span.begin);
  EXPECT_EQ(position.line, 1);
  EXPECT_EQ(position.column, 4);  // code points, not bytes
}

TEST(YamlReader, LimitsAreExact) {
  const auto reads = [](const std::string& text) {
    const Source source{"a.yaml", text};
    std::vector<Diagnostic> diagnostics;
    return read_yaml(source, diagnostics) && diagnostics.empty();
  };
  EXPECT_TRUE(reads(std::string(kMaxDepth, '[') + std::string(kMaxDepth, ']')));
  EXPECT_FALSE(reads(std::string(kMaxDepth + 1, '[') + std::string(kMaxDepth + 1, ']')));
  const auto list = [](std::size_t items) {
    std::string text = "[";
    for (std::size_t i = 0; i < items; ++i) text += "a, ";
    return text + "]";
  };
  EXPECT_TRUE(reads(list(kMaxNodes - 1)));
  EXPECT_FALSE(reads(list(kMaxNodes)));
  EXPECT_TRUE(reads("a: b\n#" + std::string(kMaxBytes - 6, ' ')));
  EXPECT_FALSE(reads("a: b\n#" + std::string(kMaxBytes - 5, ' ')));
}

TEST(YamlReader, HostileTextsEndQuickly) {
  for (const char* piece : {"[", "{", "- ", "? ", "a: ", "\"", "'", "&a ", "*a ", "!!a ", "|\n ", "%TAG ! !\n", "---\n",
                            "{a: [", "a\n b\n"}) {
    std::string text;
    while (text.size() + std::strlen(piece) <= kMaxBytes) text += piece;
    const Source source{"a.yaml", text};
    std::vector<Diagnostic> diagnostics;
    read_yaml(source, diagnostics);
    EXPECT_LE(diagnostics.size(), 2 * kMaxNodes) << piece;
  }
}

TEST(Codes, UniqueAndExplained) {
  std::set<std::string> seen;
  for (const Code& code : codes()) {
    EXPECT_TRUE(seen.insert(code.code).second) << code.code;
    const auto text = explain(code.code);
    ASSERT_TRUE(text);
    EXPECT_NE(text->find("wrong:"), std::string::npos) << code.code;
    EXPECT_NE(text->find("right:"), std::string::npos) << code.code;
  }
  EXPECT_FALSE(explain("E9999"));
}

}  // namespace
}  // namespace llmc::spec
