#include "compiler/tools/dataset/slow_lines.h"

#include <utility>

#include "host/blocked_signals.h"

namespace llmc::data {

SlowLines::SlowLines(std::chrono::milliseconds between, std::function<void(const std::string&)> print) {
  // A signal must reach the thread that cleans up.
  const BlockedSignals blocked;
  thread_ = std::thread([this, between, print = std::move(print)] {
    std::unique_lock lock(mutex_);
    while (!ended_.wait_for(lock, between, [this] { return end_; }))
      if (!line_.empty()) print(line_);
  });
}

SlowLines::~SlowLines() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_one();
  thread_.join();
}

void SlowLines::set(std::string line) {
  const std::lock_guard lock(mutex_);
  line_ = std::move(line);
}

}  // namespace llmc::data
