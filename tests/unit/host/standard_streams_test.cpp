// Standard streams that the caller has closed.
#include "host/standard_streams.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace llmc {
namespace {

/// The number that a file gets in a process that began without the streams that `closed` has bits of.
int number_of_file(int closed) {
  const pid_t child = fork();
  if (child == 0) {
    for (int stream = 0; stream <= 2; ++stream)
      if (closed >> stream & 1) ::close(stream);
    hold_standard_streams();
    _exit(::open("/dev/zero", O_RDONLY));
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(StandardStreams, NoFileTakesTheNumberOfAClosedOne) {
  for (int closed = 0; closed < 8; ++closed) EXPECT_GT(number_of_file(closed), 2) << closed;
}

}  // namespace
}  // namespace llmc
