// Parts of the specialiser without a compiler: tokens, edits, layout, params as text, --style=include.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "compiler/emit/specialiser/edits.h"
#include "compiler/emit/specialiser/layout.h"
#include "compiler/emit/specialiser/tokens.h"
#include "error.h"
#include "params_file.h"
#include "sample.h"

namespace llmc::emit {
namespace {

std::string joined(const std::string& text) {
  std::string all;
  for (const Token& token : tokenize(text)) all.append("[").append(token.text).append("]");
  return all;
}

TEST(Tokens, NumbersLiteralsCommentsDirectives) {
  EXPECT_EQ(joined("a1 = 1e-5f+0x1p-3-1'000;"), "[a1][=][1e-5f][+][0x1p-3][-][1'000][;]");
  EXPECT_EQ(joined("s = \"// no\" + '\\'';"), "[s][=][\"// no\"][+]['\\''][;]");
  EXPECT_EQ(joined("R\"x(a)\" b)x\" c"), "[R\"x(a)\" b)x\"][c]");
  EXPECT_EQ(joined("a /* b\n c */ d // e\nf"), "[a][/* b\n c */][d][// e][f]");
  EXPECT_EQ(joined("#define A \\\n  b  // c\nd # e"), "[#define A \\\n  b][// c][d][#][e]");
}

TEST(Edits, RemovalsSwallowAndReplacementsCountOnce) {
  const std::string text = "0123456789";
  Edits edits(text, "f");
  edits.remove({2, 5});
  edits.remove({4, 7});
  edits.replace({3, 4}, "x");
  edits.replace({8, 9}, "y");
  edits.replace({8, 9}, "y");
  edits.insert(7, "z");
  EXPECT_EQ(edits.apply(), "01z7y9");
}

TEST(Edits, OverlapsAreRefused) {
  const std::string text = "01\n3456789";
  Edits two(text, "f");
  two.replace({3, 6}, "x");
  two.replace({5, 8}, "y");
  EXPECT_THROW(two.apply(), Failure);
  Edits partly(text, "f");
  partly.replace({3, 6}, "x");
  partly.remove({5, 8});
  try {
    partly.apply();
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(), "f:2: edits overlap");
  }
}

TEST(Layout, DeclarationsAtNamespaceScope) {
  const std::string text =
      "#include \"a.h\"\nnamespace llmc {\nstruct A {\n  int x;\n};\nconstexpr float t[] = {1, 2};\ninline int f() { "
      "return g({1}); }\n"
      "namespace inner {\ntemplate <class T>\nvoid h(T) {}\n}\nint x{1}, y{2};\n}  // namespace llmc\n";
  std::string all;
  const std::vector<Token> tokens = tokenize(text);
  const SourceLayout layout = lay_out(tokens);
  for (const TextRange& chunk : layout.chunks) all += text.substr(chunk.begin, chunk.end - chunk.begin) + "|";
  EXPECT_EQ(all,
            "struct A {\n  int x;\n};|constexpr float t[] = {1, 2};|inline int f() { return g({1}); }|"
            "template <class T>\nvoid h(T) {}|int x{1}, y{2};|");
  EXPECT_EQ(layout.namespace_begin, text.find("{") + 1);
}

TEST(Layout, CommentsThatBelongToARange) {
  const std::string text = "// Apart.\n\n// One.\n// Two.\nint x;  // three\nint y;\n";
  const std::size_t x = text.find("int x;");
  const TextRange range = with_comments(text, tokenize(text), {x, x + 6});
  EXPECT_EQ(text.substr(range.begin, range.end - range.begin), "// One.\n// Two.\nint x;  // three\n");
}

TEST(ParamsText, ReadsBack) {
  const std::vector<Param> params = {{"using", "Act", "bf16"},
                                     {"int", "kCols", "2048"},
                                     {"float", "kEps", "1e-5f"},
                                     {"unsigned long long", "kBig", "1ull << 40"}};
  const std::string text = params_text(params);
  EXPECT_EQ(text,
            "namespace llmc {\n\nusing Act = bf16;\nconstexpr int kCols = 2048;\nconstexpr float kEps = 1e-5f;\n"
            "constexpr unsigned long long kBig = 1ull << 40;\n\n}  // namespace llmc\n");
  EXPECT_EQ(parse_params("// Defaults.\n#pragma once\n" + text, "params.h"), params);
}

TEST(ParamsRead, NamesInCodeAndDirectivesNotInComments) {
  const std::vector<Param> known = {{"int", "kA", "1"}, {"int", "kB", "1"}, {"int", "kC", "1"}, {"int", "kD", "1"}};
  EXPECT_EQ(params_read("// kB\n#pragma unroll kC\nint x = kA + kDD;\n", known),
            (std::vector<std::string>{"kA", "kC"}));
}

TEST(Format, StyleIsTheRepositorys) {
  std::ifstream file(std::filesystem::path(LLMC_SOURCE_DIR) / ".clang-format");
  std::string style;
  for (std::string line; std::getline(file, line);) style.append(style.empty() ? "{" : ", ").append(line);
  EXPECT_EQ(style + "}", kFormatStyle);
}

TEST(IncludeStyle, Text) {
  SpecialiseInput input = sample({{"int", "kCols", "2048"}}, "  out[0] = in[kCols];\n");
  input.entry = "sample_final";
  input.header = {"run 0123"};
  EXPECT_EQ(include_style(input),
            "// run 0123\n\n#include \"device/types.h\"\n\n#define LLMC_PARAMS_GIVEN\nnamespace llmc {\n\nconstexpr "
            "int kCols = 2048;\n\n"
            "}  // namespace llmc\n\n#define sample sample_final\n#include \"templates/sample.cu\"\n");
  input.params.push_back({"int", "kRows", "1"});
  EXPECT_THROW(include_style(input), Failure);
}

}  // namespace
}  // namespace llmc::emit
