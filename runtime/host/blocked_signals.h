// Blocks signals in threads, so that the main thread receives them. A thread inherits its creator's mask.
#pragma once

#include <csignal>

namespace llmc {

/// For its lifetime this thread, and every thread that it creates, receives no signals.
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
