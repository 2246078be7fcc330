// Run folders below a folder.
#include "compiler/tools/runs/summary.h"

#include <gtest/gtest.h>

#include <string>

#include "../folder.h"

namespace llmc::runs {
namespace {

TEST(FindRuns, SaysThatDeeperFoldersWereNotSearched) {
  for (const int levels : {kDeepest, kDeepest + 1}) {
    const test::Folder base;
    std::string below;
    for (int level = 1; level <= levels; ++level) below += std::to_string(level) + "/";
    base.write(below + "state/model", "");
    const FoundRuns found = find_runs(base.path);
    EXPECT_EQ(found.runs.size(), levels == kDeepest ? 1u : 0u);
    EXPECT_EQ(found.deeper, levels > kDeepest);
  }
}

}  // namespace
}  // namespace llmc::runs
