// What the outside world asks of a running trainer: save, or stop after this step.
#pragma once

#include <csignal>
#include <vector>

namespace llmc {

/// While it lives: USR1 asks for a save; TERM, INT, HUP (unless it is ignored) and USR2 ask to stop after the step, and
/// another of them, a second or more after the first (comm/requests.h), ends the process at once with exit code 128 +
/// signal. One at a time; the former handlers come back at the end.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// The signal that asked to stop, 0 if none did.
  int stop_signal() const;
  /// True once for each request to save.
  bool take_save_request();

 private:
  struct Former {
    int signal;
    struct sigaction action;
  };
  std::vector<Former> former_;
};

/// "SIGTERM"
const char* signal_name(int signal);

}  // namespace llmc
