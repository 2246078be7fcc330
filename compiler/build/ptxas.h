// What ptxas says of a kernel that it has assembled (nvcc -Xptxas -v).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::build {

/// One kernel on one architecture. Bytes of spills: all loads and stores that ptxas put in for want of registers.
struct KernelUse {
  std::string arch;                                // "90a"
  int registers = 0;                               // of a thread
  std::int64_t spill_stores = 0, spill_loads = 0;  // bytes
  std::int64_t shared = 0;                         // bytes of a block, static
};

/// What else the compiler printed beside the report: its warnings.
std::string without_ptxas(const std::string& output);

/// One entry an architecture, in ptxas' order, of the report on a file with one kernel. Throws Failure(toolchain) that
/// names `file` where the text does not hold that.
std::vector<KernelUse> parse_ptxas(const std::string& text, const std::string& file);

/// Blocks of `threads` threads that fit a multiprocessor of the architecture at once, and the share of its threads that
/// they are. Zero blocks: one does not fit.
struct Occupancy {
  int blocks = 0;
  double share = 0;
};
Occupancy occupancy(const KernelUse& use, std::int64_t threads);

}  // namespace llmc::build
