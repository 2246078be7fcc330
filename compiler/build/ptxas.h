// Parses ptxas' report on an assembled kernel (nvcc -Xptxas -v).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmc::build {

/// Resources of one kernel on one architecture. Spills: all loads and stores that ptxas inserted for lack of registers.
struct KernelUse {
  std::string arch;                                // "90a"
  int registers = 0;                               // per thread
  std::int64_t spill_stores = 0, spill_loads = 0;  // bytes
  std::int64_t shared = 0;                         // bytes of static shared memory per block
};

/// Returns the compiler's output without the report: its warnings.
std::string without_ptxas(const std::string& output);

/// Parses the report on a file with one kernel: one entry per architecture, in ptxas' order. Throws Failure(toolchain)
/// with the name `file` if the text holds no complete report.
std::vector<KernelUse> parse_ptxas(const std::string& text, const std::string& file);

/// Blocks of `threads` threads that fit a multiprocessor of the architecture at once, and the fraction of its threads
/// that they use. Zero blocks: none fits.
struct Occupancy {
  int blocks = 0;
  double share = 0;
};
Occupancy occupancy(const KernelUse& use, std::int64_t threads);

}  // namespace llmc::build
