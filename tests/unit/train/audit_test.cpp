// When a loss is audited, and when a difference is reported.
#include "train/audit.h"

#include <gtest/gtest.h>

#include <limits>

namespace llmc {
namespace {

TEST(Audit, IsOfTheFirstStepAndOfMultiples) {
  const Audit audit({spec::AuditCompute::logits, 4, 0.02}), never({spec::AuditCompute::logits, 0, 0.02});
  std::string steps;
  for (std::int64_t step = 1; step <= 12; ++step) {
    if (audit.due(step)) steps += std::to_string(step) + " ";
    EXPECT_FALSE(never.due(step));
  }
  EXPECT_EQ(steps, "1 4 8 12 ");
}

TEST(Audit, IsSaidOncePerCrossing) {
  Audit audit({spec::AuditCompute::logits, 4, 0.02});
  EXPECT_EQ(audit.judge(1, 3.01, 3.0, 9), "");
  const std::string warning = audit.judge(4, 2.979, 3.0, 45.25);
  for (const char* fact : {"step 4: ", " 2.979,", " 3 ", "(audit.compute: logits)", " -0.021 nats",
                           "audit.bound is 0.02", "log-sum-exp is 45.25)"})
    EXPECT_NE(warning.find(fact), std::string::npos) << fact << "\n" << warning;
  EXPECT_EQ(audit.judge(8, 2.5, 3.0, 9), "");  // still differs
  EXPECT_EQ(audit.judge(12, 3.0199, 3.0, 9), "");
  EXPECT_NE(audit.judge(16, 3.03, 3.0, 9), "");
}

TEST(Audit, NoNumberAgainstANumber) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();
  for (const auto& [training, audited] : {std::pair(kNaN, 3.0), std::pair(3.0, kNaN), std::pair(3.0, kInf)}) {
    Audit audit({spec::AuditCompute::forward, 4, 0.02});
    EXPECT_NE(audit.judge(4, training, audited, 9), "") << training;
  }
  Audit audit({spec::AuditCompute::forward, 4, 0.02});
  EXPECT_EQ(audit.judge(4, kNaN, kNaN, 9), "");  // reported by the guards
}

TEST(Audit, ABoundOf0IsOfEveryDifference) {
  Audit audit({spec::AuditCompute::logits, 1, 0});
  EXPECT_EQ(audit.judge(1, 3, 3, 9), "");
  EXPECT_NE(audit.judge(2, 3, 3 + 1e-9, 9), "");
}

}  // namespace
}  // namespace llmc
