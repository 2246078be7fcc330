#include "comm/time_limit.h"

#include <unistd.h>

#include "error.h"
#include "host/blocked_signals.h"
#include "text/printable.h"

namespace llmc {

TimeLimit::TimeLimit(std::chrono::milliseconds limit, const std::string& line) {
  const BlockedSignals blocked;
  thread_ = std::thread([this, limit, line] {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, limit, [this] { return done_; })) return;
    write_error_line(line);
    _exit(static_cast<int>(Exit::peer_lost));
  });
}

TimeLimit::~TimeLimit() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void write_error_line(const std::string& line) {
  const std::string text = "error: " + printable_text(line) + "\n";
  [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace llmc
