// Threads of the runtime that signals pass by: they are for the main thread. A thread has its creator's mask.
#pragma once

#include <csignal>

namespace llmc {

/// While it lives this thread, and every thread that it creates, takes no signal.
class BlockedSignals {
 public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace llmc
