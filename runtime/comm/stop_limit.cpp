#include "comm/stop_limit.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "comm/rendezvous.h"
#include "comm/time_limit.h"
#include "host/blocked_signals.h"

namespace llmc {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kLongestLook{250};
constexpr int kLooks = 8;         // within a short patience, for tests
constexpr int kLongestWaits = 2;  // times the longest wait before the signal

}  // namespace

StopLimit::StopLimit(Rendezvous& ranks, std::function<int()> stop_signal, milliseconds patience)
    : ranks_(ranks), stop_signal_(std::move(stop_signal)), patience_(patience) {
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

StopLimit::~StopLimit() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  ended_.notify_all();
  thread_.join();
}

void StopLimit::run() {
  const milliseconds look = std::min(kLongestLook, patience_ / kLooks);
  milliseconds longest{0};
  Rendezvous::Progress before = ranks_.progress();
  auto looked = steady_clock::now();
  steady_clock::duration waited{0};
  bool asked = false;
  std::unique_lock lock(mutex_);
  while (!ended_.wait_for(lock, look, [this] { return done_; })) {
    // Time in which this process was itself stopped does not count, as in Watch::judge_silence().
    const auto now = steady_clock::now();
    waited += std::min<steady_clock::duration>(now - std::exchange(looked, now), 2 * look);
    const Rendezvous::Progress here = ranks_.progress();
    const int signal = stop_signal_();
    // The wait before a signal only counts towards the longest.
    const bool first = signal != 0 && !std::exchange(asked, signal != 0);
    if (first || here.moves != before.moves || !here.training) {
      if (!asked || first) longest = std::max(longest, std::chrono::duration_cast<milliseconds>(waited));
      before = here;
      waited = {};
    }
    const milliseconds limit = std::max(patience_, kLongestWaits * longest);
    if (asked && waited >= limit) end(signal, limit);
  }
}

void StopLimit::end(int signal, milliseconds limit) {
  const std::string why =
      fmt::format("it was asked to stop by signal {} and made no progress for {:g} s, at step {} in {}", signal,
                  std::chrono::duration<double>(limit).count(), ranks_.progress().step, ranks_.progress().doing);
  ranks_.farewell(128 + signal, why);
  write_error_line(
      fmt::format("this rank is stuck: {}. Nothing was saved since its last checkpoint. Start the ranks with the same "
                  "command to resume",
                  why));
  _exit(128 + signal);
}

}  // namespace llmc
