// Handles standard streams that are closed, full, or pipes without a reader.
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

/// Opens /dev/null on every closed standard stream, so that no later file gets its descriptor and receives messages.
/// Ignores SIGXFSZ, so that exceeding the file size limit (ulimit -f) is a write error. Call it before opening
/// anything.
inline void hold_standard_streams() {
  std::signal(SIGXFSZ, SIG_IGN);
  for (int stream = 0; stream <= 2; ++stream) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    // stdout is opened for reading only, so that writing to it fails: lost output is an error, a lost message is not.
    if (::open("/dev/null", stream == 2 ? O_WRONLY : O_RDONLY) < 0) return;
  }
}

/// Flushes the stream and returns the errno of a failed write; 0 if everything was written.
inline int stream_error(std::FILE* stream) {
  errno = 0;
  if (std::fflush(stream) == 0 && !std::ferror(stream)) return 0;
  // The failed call may be long past and errno reset, so another write finds the reason.
  if (errno == 0 && ::write(fileno(stream), "\n", 1) >= 0) errno = EIO;
  return errno;
}

inline std::string unwritten(const char* stream, int error) {
  return std::string(stream) + " cannot be written: " + (error == EBADF ? "it is closed" : std::strerror(error)) +
         ". Send it to a file on a disk with free space, or to a program that reads it";
}

/// Throws Failure(usage) if standard output could not be written. Call it at the end of a command.
inline void check_output() {
  if (const int error = stream_error(stdout)) throw Failure(Exit::usage, unwritten("standard output", error));
}

/// Describes why printing failed; empty if it did not.
inline std::string stream_problem() {
  if (const int error = stream_error(stdout)) return unwritten("standard output", error);
  return {};
}

}  // namespace llmc
