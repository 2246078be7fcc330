// A named stretch of the host's work, for the stream's listener (device/timeline.h) and on a profiler's time line.
// cuda: an NVTX range, as Nsight Systems shows them; cpu: none, since perf and VTune know functions by name.
#pragma once

#include "device/timeline.h"

namespace llmc {

class Range {
 public:
  /// `name` lives as long as the range.
  Range(Stream& stream, const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  LaunchListener* const listener_;
};

}  // namespace llmc
