#include "train/background.h"

#include <utility>

#include "host/blocked_signals.h"

namespace llmc {

void Background::start(std::function<void()> job) {
  wait();
  busy_ = true;
  const BlockedSignals blocked;
  thread_ = std::thread([this, job = std::move(job)] {
    job();
    busy_.store(false, std::memory_order_release);
  });
}

void Background::wait() {
  if (thread_.joinable()) thread_.join();
}

}  // namespace llmc
