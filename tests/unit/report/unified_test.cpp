// Unified diffs: known texts, and random ones that are applied.
#include "compiler/tools/report/unified.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <sstream>
#include <vector>

namespace llmc::report {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

/// Applies a diff as `patch` does. All context lines and removed lines must match.
std::string patched(const std::string& before, const std::string& diff) {
  const std::vector<std::string> old = lines_of(before), patch = lines_of(diff);
  std::string after;
  std::size_t at = 0;
  for (std::size_t i = 2; i < patch.size();) {
    std::size_t a = 0, a_count = 0, b = 0, b_count = 0;
    EXPECT_EQ(std::sscanf(patch[i].c_str(), "@@ -%zu,%zu +%zu,%zu @@", &a, &a_count, &b, &b_count), 4) << patch[i];
    const std::size_t start = a_count ? a - 1 : a;  // a hunk without old lines names the line before it
    for (; at < start; ++at) after += old.at(at) + '\n';
    for (++i; i < patch.size() && patch[i][0] != '@'; ++i) {
      const std::string text = patch[i].substr(1);
      if (patch[i][0] != '+') {
        EXPECT_EQ(old.at(at++), text);
      }
      if (patch[i][0] != '-') after += text + '\n';
      a_count -= patch[i][0] != '+';
      b_count -= patch[i][0] != '-';
    }
    EXPECT_EQ(a_count, 0u);
    EXPECT_EQ(b_count, 0u);
  }
  for (; at < old.size(); ++at) after += old[at] + '\n';
  return after;
}

TEST(UnifiedDiff, EqualTextsGiveNothing) {
  EXPECT_EQ(unified_diff("a\nb\n", "a\nb\n", "one", "two"), "");
  EXPECT_EQ(unified_diff("", "", "one", "two"), "");
}

TEST(UnifiedDiff, OneChangedLineWithItsContext) {
  EXPECT_EQ(unified_diff("1\n2\n3\n4\n5\n6\n7\n", "1\n2\n3\nfour\n5\n6\n7\n", "one", "two"),
            "--- one\n+++ two\n@@ -2,5 +2,5 @@\n 2\n 3\n-4\n+four\n 5\n 6\n");
}

TEST(UnifiedDiff, ChangesFarApartAreTwoHunks) {
  const std::string before = "a\n1\n2\n3\n4\n5\n6\n7\nb\n", after = "A\n1\n2\n3\n4\n5\n6\n7\nB\n";
  EXPECT_EQ(unified_diff(before, after, "one", "two"),
            "--- one\n+++ two\n@@ -1,3 +1,3 @@\n-a\n+A\n 1\n 2\n@@ -7,3 +7,3 @@\n 6\n 7\n-b\n+B\n");
}

TEST(UnifiedDiff, FromAndToNothing) {
  EXPECT_EQ(unified_diff("", "new\n", "one", "two"), "--- one\n+++ two\n@@ -0,0 +1,1 @@\n+new\n");
  EXPECT_EQ(unified_diff("old\n", "", "one", "two"), "--- one\n+++ two\n@@ -1,1 +0,0 @@\n-old\n");
}

TEST(UnifiedDiff, RandomTextsCanBePatched) {
  std::mt19937 rng(3);
  for (int trial = 0; trial < 500; ++trial) {
    std::string before, after;
    for (int i = 0, n = static_cast<int>(rng() % 30); i < n; ++i) {
      const std::string line = std::string(1, static_cast<char>('a' + rng() % 5)) + "\n";
      if (rng() % 6) before += line;
      if (rng() % 6) after += rng() % 8 ? line : "changed\n";
    }
    if (before == after) continue;
    const std::string diff = unified_diff(before, after, "one", "two");
    ASSERT_EQ(patched(before, diff), after) << before << "---\n" << after << "---\n" << diff;
  }
}

}  // namespace
}  // namespace llmc::report
