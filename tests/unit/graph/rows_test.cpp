// The table of ops; no code decides by the name of a tensor, an op or a region.
#include "compiler/ops/rows.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

namespace llmc::ops {
namespace {

namespace fs = std::filesystem;

/// Each kind has its own row, and only the last ones communicate between ranks.
TEST(Rows, EachStandsAtItsKind) {
  std::set<std::string> names;
  std::set<const OpRow*> rows;
  for (std::size_t i = 0; i < kOpKinds; ++i) {
    const auto kind = static_cast<OpKind>(i);
    EXPECT_TRUE(rows.insert(&row_of(kind)).second) << name_of(kind);
    EXPECT_TRUE(names.insert(name_of(kind)).second) << name_of(kind);
  }
  EXPECT_EQ(&row_of(OpKind::rope_backward), &kRopeBackward);
  EXPECT_STREQ(name_of(OpKind::rope_backward), "rope_backward");
  EXPECT_FALSE(is_between_ranks(OpKind::cast));
  EXPECT_TRUE(is_between_ranks(OpKind::all_reduce));
  EXPECT_TRUE(is_between_ranks(OpKind::from_wire));
}

/// Lines that look up a tensor, op or region by name, or compare its name with a string.
const std::regex kByName(
    R"re((\bname|label\(\))\s*[!=]=\s*"|"\s*[!=]=\s*[\w.>()-]*\bname\b|\b(graph|g_?)(\.|->)(find|region)\("|)re"
    R"re(\bname\.(find|rfind|compare|substr|starts_with|ends_with|erase)\()re");

TEST(Names, DecideNothing) {
  for (const char* line :
       {"if (t.name == \"loss\")", "op.name != \"gate_up\"", "\"x\" == t.name", "graph.find(\"d_x_first\")",
        "*graph.region(\"head\")", "product.name.find(\"_again\")", "op.label() == \"rope\""})
    EXPECT_TRUE(std::regex_search(line, kByName)) << line;
  int files = 0;
  for (const char* stage : {"graph", "ops", "passes", "plan", "emit", "tools/report"})
    for (const auto& entry : fs::directory_iterator(fs::path(SOURCE_FOLDER) / "compiler" / stage)) {
      if (!entry.is_regular_file()) continue;
      ++files;
      std::ifstream in(entry.path());
      int number = 0;
      for (std::string line; std::getline(in, line);) {
        ++number;
        EXPECT_FALSE(std::regex_search(line, kByName)) << entry.path().filename() << ":" << number << ": " << line;
      }
    }
  EXPECT_GT(files, 60);
}

}  // namespace
}  // namespace llmc::ops
