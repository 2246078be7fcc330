// Ends a rank that does not reach the next step boundary after a request to stop.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace llmc {

class Rendezvous;

/// Watches the main thread's progress on one of several ranks from its own thread. After a signal a rank is stuck if it
/// waits in one collective of a step, or in one step on a device, for longer than `patience` and more than twice the
/// longest such wait before the signal, so a slow step is not. It then tells the others, writes a line with its
/// position, and ends with exit code 128 + signal. Saving, evaluating and sampling may take any time, also in their
/// collectives: a rank may wait there for another one's disk.
class StopLimit {
 public:
  /// `stop_signal`: returns the signal that asked this rank to stop, 0 if none has.
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
