// Starts Open MPI only if its own launcher started the process.
#include "comm/mpi_library.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "../facts.h"
#include "comm/launcher.h"
#include "error.h"

namespace llmc {
namespace {

TEST(Mpi, AnotherLaunchersProcessIsRefusedBeforeItsInit) {
  setenv("PMI_RANK", "0", 1);  // srun --mpi=pmi2: MPI_Init would end this process
  LauncherInfo launch;
  launch.by = "PMI";
  launch.world_size = 2;
  try {
    Mpi mpi(launch);
    FAIL();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::usage);
    EXPECT_TRUE(test::has_facts(failure.what(), {"PMI", "rank 0 of 2", "srun --mpi=pmix"}));
  }
  unsetenv("PMI_RANK");
}

}  // namespace
}  // namespace llmc
