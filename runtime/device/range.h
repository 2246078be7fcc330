// A named range of the host's work, for the stream's listener (device/timeline.h) and a profiler's timeline. cuda: an
// NVTX range, as shown by Nsight Systems; cpu: none, because perf and VTune know functions by name.
#pragma once

#include "device/timeline.h"

namespace llmc {

class Range {
 public:
  /// `name` must outlive the range.
  Range(Stream& stream, const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  LaunchListener* const listener_;
};

}  // namespace llmc
