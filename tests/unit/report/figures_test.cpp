// Bytes and counts in human-readable form.
#include <gtest/gtest.h>

#include "compiler/tools/report/plan_report.h"

namespace llmc::report {
namespace {

TEST(Figures, Bytes) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(96), "96 B");
  EXPECT_EQ(human_bytes(1536), "1.50 KiB");
  EXPECT_EQ(human_bytes(480.0 * (1 << 20)), "480.00 MiB");
  EXPECT_EQ(human_bytes(80.0 * (1 << 30)), "80.00 GiB");
}

TEST(Figures, Counts) {
  EXPECT_EQ(human_count(0), "0");
  EXPECT_EQ(human_count(7852000000.0), "7.85 G");
  EXPECT_EQ(human_count(1241581568.0), "1.24 G");
}

}  // namespace
}  // namespace llmc::report
