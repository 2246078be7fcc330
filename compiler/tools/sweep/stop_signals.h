// Signals that ask a sweep to stop.
#pragma once

#include <csignal>
#include <vector>

namespace llmc::sweep {

/// Notes TERM, INT and HUP (unless ignored) for its lifetime. A second signal of a kind ends the process, and the
/// kernel then signals its trainers. One instance at a time.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The last one; 0: none.
  int received() const;

 private:
  struct Former {
    int signal;
    struct sigaction action;
  };
  std::vector<Former> former_;
};

}  // namespace llmc::sweep
