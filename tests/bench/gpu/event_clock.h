// Milliseconds of work on a stream, measured with events.
#pragma once

#include "device/cuda/check.h"
#include "device/cuda/stream.h"

namespace llmc::bench {

class EventClock {
 public:
  explicit EventClock(Stream& stream) : stream_(stream) {
    check(cudaEventCreate(&begin_), "an event");
    check(cudaEventCreate(&end_), "an event");
  }

  void begin() { check(cudaEventRecord(begin_, stream_.handle), "an event"); }

  /// Waits for the work now on the stream; returns ms since begin().
  double end() {
    check(cudaEventRecord(end_, stream_.handle), "an event");
    check(cudaEventSynchronize(end_), "an event");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, begin_, end_), "an event");
    return static_cast<double>(ms);
  }

 private:
  Stream& stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace llmc::bench
