// Work beside training, one job at a time.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace llmc {

/// A job runs on a thread of its own, which takes no signal.
class Background {
 public:
  Background() = default;
  ~Background() { wait(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Waits for the job before. `job` does not throw.
  void start(std::function<void()> job);
  bool busy() const { return busy_.load(std::memory_order_acquire); }
  /// Returns when the job is done; what it wrote is then seen.
  void wait();

 private:
  std::thread thread_;
  std::atomic<bool> busy_{false};
};

}  // namespace llmc
