// Requests from outside to a running trainer: save, or stop after this step.
#pragma once

#include <csignal>
#include <vector>

namespace llmc {

/// Handles signals for its lifetime. USR1 requests a save; another one within a second is the same request. TERM, INT,
/// HUP (unless ignored) and USR2 request a stop after the step; a second one, at least a second later
/// (comm/requests.h), ends the process at once with exit code 128 + signal. A signal that tells of the parent's death
/// is the same request as one before. One instance at a time; the destructor restores the previous handlers.
class SignalWatch {
 public:
  /// `of_launcher`: whether `trainer --ranks N` started this process, maybe by mpirun. It passes requests on with a
  /// value (comm/requests.h), so that a parent's signal without one tells of the launcher's death.
  explicit SignalWatch(bool of_launcher);
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  /// Signal that requested a stop, 0 if none.
  int stop_signal() const;
  /// Returns true once per request to save.
  bool take_save_request();
  /// Some rank has requested the save that begins now. A request of this process that is still to be taken, or that
  /// arrives within a second, is the same one.
  void join_save_request();

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
