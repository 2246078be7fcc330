// Compiler flags of emitted sources, shared by llmc's builds, emitted CMake projects, and the tests that compare
// machine code.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace llmc::emit {

/// Flags of g++ for kernels. -fno-math-errno makes AdamW's loop vectors, and all vectors have 512 bits
/// (docs/explanation/kernels.md). No contraction: every target must round where the source does.
inline std::vector<std::string> cpu_flags() {
  return {"-std=c++20", "-O3", "-fopenmp", "-mprefer-vector-width=512", "-fno-math-errno", "-ffp-contract=off"};
}

/// Flags of g++ for the step. It only calls kernels and products, and -O3 would take a third of its compilation.
inline std::vector<std::string> cpu_step_flags() {
  std::vector<std::string> flags = cpu_flags();
  *std::ranges::find(flags, "-O3") = "-O1";
  return flags;
}

/// Flags of nvcc for kernels and step.
inline std::vector<std::string> cuda_flags() { return {"-std=c++20", "-O3", "--fmad=false"}; }

/// Returns one -gencode pair for each architecture ("80", "90a", "100").
inline std::vector<std::string> gencode(const std::vector<std::string>& archs) {
  std::vector<std::string> flags;
  for (const std::string& arch : archs) {
    flags.push_back("-gencode");
    flags.push_back("arch=compute_" + arch + ",code=sm_" + arch);
  }
  return flags;
}

}  // namespace llmc::emit
