// Times every launch of an emitted CUDA step by events, and the host's part of it; build.py inserts the calls.
#pragma once

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "device/cuda/check.h"
#include "device/cuda/stream.h"

namespace llmc::bench {

/// Times by name, written as JSON to the file named by LLMC_PIECES: [step, ms] of each launch, and for each replay of a
/// graph the host's ms. LLMC_PIECES_REPEATS: 0 records no events, so that the host's time is undisturbed; above 1 each
/// launch runs that many times in a row, and its time is the mean.
class Pieces {
 public:
  static Pieces& get() {
    static Pieces pieces;
    return pieces;
  }

  int repeats() const { return repeats_; }

  void add(const char* name, cudaEvent_t begin, cudaEvent_t end) { launches_[name].push_back({step_, begin, end}); }

  void add_host(double ms) { host_.push_back(ms); }
  void end_step() { ++step_; }

  void write() {
    const char* path = std::getenv("LLMC_PIECES");
    std::FILE* file = path ? std::fopen(path, "w") : nullptr;
    if (!file) return;
    std::fprintf(file, "{\"steps\": %zu, \"host\": [", step_);
    for (std::size_t i = 0; i < host_.size(); ++i) std::fprintf(file, "%s%.6f", i ? ", " : "", host_[i]);
    std::fprintf(file, "],\n\"launches\": {");
    const char* comma = "\n";
    for (const auto& [name, launches] : launches_) {
      std::fprintf(file, "%s\"%s\": [", comma, name.c_str());
      for (std::size_t i = 0; i < launches.size(); ++i) {
        float ms = 0;
        check(cudaEventSynchronize(launches[i].end), "the end of a launch");
        check(cudaEventElapsedTime(&ms, launches[i].begin, launches[i].end), "the time of a launch");
        std::fprintf(file, "%s[%zu, %.6f]", i ? ", " : "", launches[i].step, static_cast<double>(ms) / repeats_);
      }
      std::fprintf(file, "]");
      comma = ",\n";
    }
    std::fprintf(file, "}}\n");
    std::fclose(file);
  }

 private:
  struct Launch {
    std::size_t step;
    cudaEvent_t begin, end;
  };
  static int wanted() {
    const char* text = std::getenv("LLMC_PIECES_REPEATS");
    return text ? std::atoi(text) : 0;
  }
  const int repeats_ = wanted();
  std::size_t step_ = 0;
  std::vector<double> host_;
  std::map<std::string, std::vector<Launch>> launches_;
};

/// Condition of a loop around the launch that it times.
class Piece {
 public:
  Piece(Stream& stream, const char* name) : stream_(stream), name_(name) {
    if (Pieces::get().repeats() > 0) begin_ = record();
  }
  ~Piece() {
    if (begin_) Pieces::get().add(name_, begin_, record());
  }
  bool again() { return done_++ < (begin_ ? Pieces::get().repeats() : 1); }

 private:
  cudaEvent_t record() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "an event of the clock");
    check(cudaEventRecord(event, stream_.handle), "an event of the clock");
    return event;
  }
  Stream& stream_;
  const char* name_;
  cudaEvent_t begin_ = nullptr;
  int done_ = 0;
};

class StepEnd {
 public:
  ~StepEnd() { Pieces::get().end_step(); }
};

/// Times the host in the enclosing block.
class HostPart {
 public:
  ~HostPart() {
    const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - begin_;
    Pieces::get().add_host(ms.count());
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace llmc::bench
