// Runs one job at a time concurrently with training.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

namespace llmc {

/// A job runs on its own thread, which handles no signals.
class Background {
 public:
  Background() = default;
  ~Background() { wait(); }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  /// Waits for the previous job, then starts `job`, which must not throw.
  void start(std::function<void()> job);
  bool busy() const { return busy_.load(std::memory_order_acquire); }
  /// Waits for the job; its writes are visible afterwards.
  void wait();

 private:
  std::thread thread_;
  std::atomic<bool> busy_{false};
};

}  // namespace llmc
