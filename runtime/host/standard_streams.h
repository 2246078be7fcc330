// Standard input, output and error as a caller may leave them: closed, full, a pipe that nobody reads.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>

#include "error.h"

namespace llmc {

/// Takes the numbers of the streams that are closed: a file that got one would be written into by the next message. A
/// file that reaches the size that this process may write (ulimit -f) fails to be written, in place of a signal. To be
/// called before anything is opened.
inline void hold_standard_streams() {
  std::signal(SIGXFSZ, SIG_IGN);
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // Output that nobody gets is an error; a message that nobody reads is none.
    if (::open("/dev/null", stream == 2 ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

/// errno of what keeps text from a stream; 0 where all of it has arrived.
inline int stream_error(std::FILE* stream) {
  errno = 0;
  if (std::fflush(stream) == 0 && !std::ferror(stream)) return 0;
  // The call that failed may be long past: its reason is that of another one.
  if (errno == 0 && ::write(fileno(stream), "\n", 1) >= 0) errno = EIO;
  return errno;
}

inline std::string unwritten(const char* stream, int error) {
  return std::string(stream) + " cannot be written: " + (error == EBADF ? "it is closed" : std::strerror(error)) +
         "; send it to a file on a disk with room, or to a program that reads it";
}

/// Throws Failure(usage) where text has not reached standard output. To be called when a command has printed all.
inline void check_output() {
  if (const int error = stream_error(stdout)) throw Failure(Exit::usage, unwritten("standard output", error));
}

/// Why a call that prints has failed; empty where it has not.
inline std::string stream_problem() {
  if (const int error = stream_error(stdout)) return unwritten("standard output", error);
  return {};
}

}  // namespace llmc
