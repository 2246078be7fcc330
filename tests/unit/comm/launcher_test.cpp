// Launchers: the meaning of their variables, and refused combinations.
#include "comm/launcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>

#include "../facts.h"
#include "../folder.h"
#include "comm/together.h"
#include "error.h"

namespace llmc {
namespace {

using testing::HasSubstr;
using Map = std::map<std::string, std::string>;

LauncherInfo find(const Map& variables) {
  return find_launcher([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

std::string text(const Map& variables) {
  const LauncherInfo l = find(variables);
  return std::to_string(l.rank) + "/" + std::to_string(l.world_size) + " local " + std::to_string(l.local_rank) +
         " by '" + l.by + "' at '" + l.host + "':" + std::to_string(l.port) + " id '" + l.id + "'";
}

std::string refusal(const Map& variables) {
  try {
    return "taken: " + text(variables);
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::usage);
    return failure.what();
  }
}

const Map kTorchrun = {{"RANK", "9"},        {"WORLD_SIZE", "16"},     {"LOCAL_RANK", "1"},
                       {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}, {"TORCHELASTIC_RUN_ID", "none"}};
const Map kOpenMpi = {
    {"OMPI_COMM_WORLD_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}};
const Map kPmi = {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}};
const Map kSlurm = {{"SLURM_PROCID", "3"},     {"SLURM_NTASKS", "4"},         {"SLURM_LOCALID", "1"},
                    {"SLURM_STEP_ID", "2"},    {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NODELIST", "gpu[07-09],x"},
                    {"SLURM_JOB_ID", "123456"}};

Map with(Map map, const Map& more) {
  for (const auto& [name, value] : more) map[name] = value;
  return map;
}

Map without(Map map, const char* name) {
  map.erase(name);
  return map;
}

TEST(Launch, AProcessAloneIsOneRank) {
  EXPECT_EQ(text({}), "0/1 local 0 by '' at '':0 id ''");
  EXPECT_EQ(text({{"RANK", ""}, {"WORLD_SIZE", ""}}), "0/1 local 0 by '' at '':0 id ''");
}

TEST(Launch, EachLauncherIsRead) {
  EXPECT_EQ(text(kTorchrun), "9/16 local 1 by 'torchrun' at 'a':29501 id ''");  // "none" is every run's
  EXPECT_EQ(text(with(kTorchrun, {{"TORCHELASTIC_RUN_ID", "mine"}})),
            "9/16 local 1 by 'torchrun' at 'a':29501 id 'mine'");
  EXPECT_EQ(text(kOpenMpi), "2/4 local 1 by 'Open MPI' at '':0 id ''");
  EXPECT_EQ(text(with(kPmi, {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}})), "2/4 local 1 by 'PMI' at 'h':6 id ''");
  EXPECT_EQ(text(kSlurm), "3/4 local 1 by 'SLURM' at 'gpu07':15474 id '123456.2'");
}

TEST(Launch, KubernetesNeedsNoLocalRankAndOneRankNoAddress) {
  EXPECT_EQ(text({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job-0"}, {"MASTER_PORT", "23456"}}),
            "1/2 local 0 by 'torchrun' at 'job-0':23457 id ''");
  EXPECT_EQ(text({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "0/1 local 0 by 'torchrun' at '':0 id ''");
  EXPECT_EQ(text({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}), "0/1 local 0 by 'PMI' at '':0 id ''");
  // Kubernetes sets this for a service named master.
  const Map service = {{"MASTER_PORT", "tcp://10.0.0.1:80"}};
  EXPECT_EQ(find(with({{"RANK", "0"}, {"WORLD_SIZE", "1"}}, service)).by, "torchrun");
  EXPECT_EQ(find(with({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}, service)).by, "PMI");
  EXPECT_EQ(find(with({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}, service)).by, "Open MPI");
}

TEST(Launch, MpiAndTorchrunStandBeforeSlurm) {
  EXPECT_EQ(find(with(kSlurm, kTorchrun)).by, "torchrun");
  EXPECT_EQ(find(with(kSlurm, kOpenMpi)).by, "Open MPI");
  // srun --mpi=pmi2: its PMI gives no host, the job step does.
  EXPECT_EQ(text(with(kSlurm, kPmi)), "2/4 local 1 by 'PMI' at 'gpu07':15474 id '123456.2'");
  // A port that another program uses can be replaced.
  const Map address = {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}};
  EXPECT_EQ(text(with(kSlurm, address)), "3/4 local 1 by 'SLURM' at 'h':6 id '123456.2'");
  EXPECT_EQ(text(with(with(kSlurm, kPmi), address)), "2/4 local 1 by 'PMI' at 'h':6 id '123456.2'");
  EXPECT_EQ(text(with(kSlurm, {{"MASTER_PORT", "5"}})), "3/4 local 1 by 'SLURM' at 'gpu07':6 id '123456.2'");
  // srun started Open MPI's daemons with a PMI of its own.
  EXPECT_EQ(find(with(with(kSlurm, kOpenMpi), {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}})).by, "Open MPI");
}

/// Without it all ranks of a machine would use its first GPU.
TEST(Launch, ALocalRankThatIsMissingIsSlurms) {
  const Map address = {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "5"}};
  const Map pmi2 = with(address, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}});  // srun --mpi=pmi2
  const Map script = with(address, {{"RANK", "3"}, {"WORLD_SIZE", "4"}});
  for (const Map& variables : {pmi2, script}) {
    EXPECT_EQ(find(with(kSlurm, variables)).local_rank, 1);
    EXPECT_EQ(find(with(with(kSlurm, variables), {{"SLURM_PROCID", "2"}})).local_rank, 0) << "another count of ranks";
    EXPECT_EQ(find(without(with(kSlurm, variables), "SLURM_STEP_ID")).local_rank, 0) << "no task of srun";
    EXPECT_EQ(find(without(with(kSlurm, variables), "SLURM_NTASKS")).local_rank, 0) << "an unknown count";
  }
  EXPECT_EQ(find(with(with(kSlurm, script), {{"LOCAL_RANK", "2"}})).local_rank, 2);
}

TEST(Launch, WhoeverStartedTorchrunIsNotCompared) {
  EXPECT_EQ(find(with(kTorchrun, kOpenMpi)).world_size, 16);
  EXPECT_THAT(
      refusal(without(with(kTorchrun, kOpenMpi), "TORCHELASTIC_RUN_ID")),
      HasSubstr("RANK=9, WORLD_SIZE=16 (torchrun) and OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=4 (Open MPI) "
                "disagree"));
  Map same = without(with(kTorchrun, kOpenMpi), "TORCHELASTIC_RUN_ID");
  same["RANK"] = "2", same["WORLD_SIZE"] = "4";
  EXPECT_EQ(find(same).by, "torchrun");
}

TEST(Launch, LaunchersThatDisagreeAreNamed) {
  EXPECT_THAT(refusal(with(kOpenMpi, {{"PMI_RANK", "2"}, {"PMI_SIZE", "3"}})),
              HasSubstr("OMPI_COMM_WORLD_RANK=2, OMPI_COMM_WORLD_SIZE=4 (Open MPI) and PMI_RANK=2, PMI_SIZE=3 (PMI)"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_NTASKS", "8"}})), HasSubstr("SLURM_NTASKS=8 and SLURM_STEP_NUM_TASKS=4"));
}

TEST(Launch, ABatchScriptAndAShellInAnAllocationAreAlone) {
  EXPECT_EQ(find(without(kSlurm, "SLURM_STEP_ID")).by, "");
  EXPECT_EQ(find(with(kSlurm, {{"SLURM_STEP_ID", "4294967291"}})).by, "");  // the batch step
  EXPECT_EQ(find(with(kSlurm, {{"SLURM_STEP_ID", "4294967290"}})).by, "");  // salloc's interactive step
  EXPECT_EQ(find(with(kSlurm, {{"SLURM_PTY_PORT", "40000"}})).by, "");      // srun --pty bash
}

TEST(Launch, NonsenseIsRefused) {
  for (const char* value : {"-1", "x", "1.0", "16", " 3", "99999999999999999999", "65536", "0x3"})
    EXPECT_THAT(refusal(with(kTorchrun, {{"RANK", value}})), HasSubstr(std::string("RANK=") + value)) << value;
  EXPECT_TRUE(test::has_facts(refusal(with(kTorchrun, {{"WORLD_SIZE", "0"}})), {"WORLD_SIZE=0 ", "from 1 to 512"}));
  EXPECT_TRUE(test::has_facts(refusal(with(kTorchrun, {{"WORLD_SIZE", "513"}})), {"WORLD_SIZE=513 ", "from 1 to 512"}))
      << "more than flat buffers can be cut for";
  EXPECT_THAT(refusal(with(kTorchrun, {{"LOCAL_RANK", "16"}})), HasSubstr("LOCAL_RANK=16 is not below WORLD_SIZE=16"));
  EXPECT_THAT(refusal(with(kTorchrun, {{"MASTER_PORT", "65535"}})), HasSubstr("MASTER_PORT=65535"));
  EXPECT_THAT(refusal(with(kSlurm, {{"SLURM_STEP_ID", "two"}})), HasSubstr("SLURM_STEP_ID=two"));
}

TEST(Launch, WhatIsMissingIsNamed) {
  EXPECT_THAT(refusal({{"RANK", "1"}}), HasSubstr("RANK=1 is set without WORLD_SIZE"));
  EXPECT_THAT(refusal({{"OMPI_COMM_WORLD_SIZE", "2"}}), HasSubstr("without OMPI_COMM_WORLD_RANK"));
  EXPECT_THAT(refusal(without(kTorchrun, "MASTER_ADDR")), HasSubstr("without MASTER_ADDR"));
  EXPECT_THAT(refusal(without(kTorchrun, "MASTER_PORT")), HasSubstr("without MASTER_PORT"));
  EXPECT_TRUE(test::has_facts(refusal(kPmi), {"PMI_SIZE=", "MASTER_ADDR", "MASTER_PORT"}));
  EXPECT_THAT(refusal(without(kSlurm, "SLURM_STEP_NODELIST")), HasSubstr("without SLURM_STEP_NODELIST"));
  EXPECT_THAT(refusal(without(kSlurm, "SLURM_JOB_ID")), HasSubstr("without SLURM_JOB_ID"));
}

TEST(Launch, TheFirstHostOfSlurm) {
  EXPECT_EQ(first_slurm_host("a"), "a");
  EXPECT_EQ(first_slurm_host("a,b[1-2]"), "a");
  EXPECT_EQ(first_slurm_host("node[007-012,3],a"), "node007");
  EXPECT_EQ(first_slurm_host("node[5,7-9]"), "node5");
  EXPECT_EQ(first_slurm_host("rack[2-3]n[01-04]-ib"), "rack2n01-ib");
  for (const char* list : {"", ",a", "[", "a[1-2", "a[]", "a[,1]", "a[-1]", "a]", "a b", "a/b"})
    EXPECT_THROW(first_slurm_host(list), Failure) << list;
}

/// A pipe that nobody reads would stop the rank without a word.
TEST(RankLogs, APipeIsRefused) {
  test::Folder run;
  std::filesystem::create_directory(run.path / "ranks");
  ASSERT_EQ(::mkfifo((run.path / "ranks/rank-0001.log").c_str(), 0600), 0);
  EXPECT_EXIT(
      {
        ::alarm(10);
        try {
          open_rank_log(run.path, 1);
        } catch (const Failure& failure) {
          std::fputs(failure.what(), stderr);
          std::_Exit(static_cast<int>(failure.code()));
        }
        std::_Exit(0);
      },
      testing::ExitedWithCode(6), "ranks/rank-0001.log' is not a regular file");
}

}  // namespace
}  // namespace llmc
