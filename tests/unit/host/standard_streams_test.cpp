// Standard streams closed by the caller.
#include "host/standard_streams.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

namespace llmc {
namespace {

/// Descriptor that a file gets in a process started without the streams whose bits are set in `closed`.
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
