// A named stretch of the host's work on a profiler's time line. cuda: an NVTX range, as Nsight Systems shows them; cpu:
// nothing, since perf and VTune know functions by name.
#pragma once

namespace llmc {

class Range {
 public:
  /// `name` lives as long as the range.
  explicit Range(const char* name);
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace llmc
