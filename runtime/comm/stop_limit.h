// A request to stop reaches a rank between two steps; this ends a rank that does not get there.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace llmc {

class Rendezvous;

/// Watches from a thread of its own how far the main thread of one of several ranks comes. After a signal a rank is
/// stuck that waits in one collective, or in one step on a device, for longer than `patience` and for longer than twice
/// the longest such wait before the signal: a slow step is none. It then tells the others, writes a line that names
/// where it is, and ends with exit code 128 + signal. Saving, evaluating and sampling take the time that they need.
class StopLimit {
 public:
  /// `stop_signal`: the signal that asked this rank to stop, 0 so far.
  StopLimit(Rendezvous& ranks, std::function<int()> stop_signal, std::chrono::milliseconds patience);
  ~StopLimit();
  StopLimit(const StopLimit&) = delete;
  StopLimit& operator=(const StopLimit&) = delete;

 private:
  void run();
  void end(int signal, std::chrono::milliseconds limit);

  Rendezvous& ranks_;
  const std::function<int()> stop_signal_;
  const std::chrono::milliseconds patience_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace llmc
