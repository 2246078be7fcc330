// Bytes and counts in human-readable form.
#include <gtest/gtest.h>

#include "compiler/tools/report/plan_report.h"
#include "compiler/tools/report/side_by_side.h"

namespace llmc::report {
namespace {

TEST(Figures, Bytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(96), "96 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(480.0 * (1 << 20)), "480.00 MiB");
  EXPECT_EQ(human_bytes(80.0 * (1 << 30)), "80.00 GiB");
  EXPECT_EQ(human_bytes((1 << 20) - 1), "1.00 MiB") << "not 1024.00 KiB";
  EXPECT_EQ(human_bytes(-1024.0 * 1023), "-1023.00 KiB");
}

TEST(Figures, Counts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(7852000000.0), "7.85 G");
  EXPECT_EQ(human_count(1241581568.0), "1.24 G");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(999'999'999), "1.00 G") << "not 1000.00 M";
}

/// A figure that appears from nothing has no percentage.
TEST(Figures, AChange) {
  EXPECT_EQ(change_row("bytes", 6, 5, 10, human_count), "  bytes             5 ->           10  +100.0 %\n");
  EXPECT_EQ(change_row("bytes", 6, 0, 10, human_count), "  bytes             0 ->           10\n");
}

/// Few ranges are listed; many are counted, since each layer type has its own.
TEST(Figures, RecomputedLayers) {
  spec::Recompute recompute{.kind = spec::Recompute::Kind::layers};
  const std::vector<std::string> norms = {"norms"}, both = {"norms", "swiglu"};
  recompute.layers = {{1, 2, false, both}, {4, 5, false, both}, {7, 7, true}};
  EXPECT_EQ(recompute_summary(recompute), "{layers: {1-2: [norms, swiglu], 4-5: [norms, swiglu], 7: full}}");
  recompute.layers.push_back({9, 12, false, norms});
  EXPECT_EQ(recompute_summary(recompute), "[norms, swiglu] in 4 layers, full in 1 layer, [norms] in 4 layers");
  EXPECT_EQ(recompute_summary({.kind = spec::Recompute::Kind::full}), "full");
}

}  // namespace
}  // namespace llmc::report
