// A time limit for library calls that wait for other ranks and have none of their own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace llmc {

/// If it lives longer than `limit`, the process writes one line to stderr and ends with exit code 170.
class TimeLimit {
 public:
  TimeLimit(std::chrono::milliseconds limit, const std::string& line);
  ~TimeLimit();
  TimeLimit(const TimeLimit&) = delete;
  TimeLimit& operator=(const TimeLimit&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

/// Writes "error: " and the line to stderr immediately; callable from any thread.
void write_error_line(const std::string& line);

}  // namespace llmc
