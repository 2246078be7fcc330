// Jobs for clusters, as text.
#include "compiler/tools/sweep/cluster.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "error.h"

namespace llmc::sweep {
namespace {

const std::vector<ClusterRun> kRuns = {{1, {"t"}}, {2, {"t"}}, {3, {"t"}}, {5, {"t"}}};

/// Returns whether a text has a line, without its indentation.
bool has(const std::string& text, const std::string& line) { return text.find(line + "\n") != std::string::npos; }

TEST(Cluster, LimitsTheRunsAtATime) {
  ClusterJob job{.again = "llmc", .logs = "/sweep/logs"};
  EXPECT_TRUE(has(slurm_array(kRuns, job), "#SBATCH --array=1-3,5"));
  EXPECT_TRUE(has(kubernetes_job(kRuns, job), "  parallelism: 4"));
  job.at_once = 2;
  EXPECT_TRUE(has(slurm_array(kRuns, job), "#SBATCH --array=1-3,5%2"));
  EXPECT_TRUE(has(kubernetes_job(kRuns, job), "  parallelism: 2"));
  job.at_once = 9;
  EXPECT_TRUE(has(kubernetes_job(kRuns, job), "  parallelism: 4"));
}

/// SLURM replaces %j, and takes a pattern with a backslash as it stands.
TEST(Cluster, LogsAreAPatternOfSlurms) {
  EXPECT_TRUE(
      has(slurm_array(kRuns, {.again = "llmc", .logs = "/50%j/logs"}), "#SBATCH --output=\"/50%%j/logs/%4a.txt\""));
  EXPECT_THROW(slurm_array(kRuns, {.again = "llmc", .logs = "/a\\b/logs"}), Failure);
}

}  // namespace
}  // namespace llmc::sweep
