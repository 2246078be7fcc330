// Tells which signals this process ignores, as its starter may have set (nohup, or a shell's background jobs).
#pragma once

#include <csignal>

namespace llmc {

/// Returns whether the process ignores a signal. One that waits for signals leaves these out: a blocked signal arrives
/// even if it is ignored.
inline bool is_ignored(int signal) {
  struct sigaction action{};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace llmc
