// Reports the progress of a long command every few seconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace llmc::data {

/// Passes the newest line to `print` at each interval `between`, from a separate thread, until destroyed. Repeats a
/// line that has not changed. Prints nothing if the work is done before the first interval.
class SlowLines {
 public:
  SlowLines(std::chrono::milliseconds between, std::function<void(const std::string&)> print);
  ~SlowLines();
  SlowLines(const SlowLines&) = delete;
  SlowLines& operator=(const SlowLines&) = delete;

  void set(std::string line);

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  std::string line_;
  bool end_ = false;
  std::thread thread_;
};

}  // namespace llmc::data
