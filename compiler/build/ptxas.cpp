#include "compiler/build/ptxas.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include "error.h"

namespace llmc::build {
namespace {

/// Limits of a multiprocessor by compute capability: the CUDA C++ programming guide's table of technical
/// specifications. All have 65,536 registers.
struct Multiprocessor {
  int capability;
  int threads, blocks;
  std::int64_t shared;  // KiB
};
constexpr Multiprocessor kMultiprocessors[] = {{80, 2048, 32, 164},  {86, 1536, 16, 100}, {87, 1536, 16, 164},
                                               {89, 1536, 24, 100},  {90, 2048, 32, 228}, {100, 2048, 32, 228},
                                               {103, 2048, 32, 228}, {120, 1536, 24, 100}};
constexpr std::int64_t kRegisters = 65536;
constexpr std::int64_t kRegisterUnit = 256;                        // registers are allocated to a warp in these units,
constexpr std::int64_t kWarpUnit = 4;                              // and to four warps at a time
constexpr std::int64_t kReservedShared = 1024, kSharedUnit = 128;  // bytes of a block; the system reserves some in
                                                                   // addition

std::int64_t rounded_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

[[noreturn]] void refuse(const std::string& file, const std::string& what) {
  throw Failure(Exit::toolchain,
                file + ": " + what + " in the output of ptxas. Recompile with a CUDA toolkit that llmc supports (13)");
}

}  // namespace

std::string without_ptxas(const std::string& output) {
  std::string rest;
  bool report = false;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    report = line.rfind("ptxas info", 0) == 0 || (report && line.find(" bytes spill stores") != std::string::npos);
    if (!report) rest += line + '\n';
  }
  return rest;
}

std::vector<KernelUse> parse_ptxas(const std::string& text, const std::string& file) {
  static const std::regex entry(R"(Compiling entry function '\S+' for 'sm_(\w+)')");
  static const std::regex spills(R"((\d+) bytes spill stores, (\d+) bytes spill loads)");
  static const std::regex used(R"(Used (\d+) registers)"), shared(R"((\d+) bytes smem)");
  std::vector<KernelUse> uses;
  bool complete = true;
  std::istringstream lines(text);
  std::smatch match;
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, match, entry)) {
      if (!complete) refuse(file, "no number of registers for sm_" + uses.back().arch);
      const std::string arch = match[1];
      for (const KernelUse& use : uses)
        if (use.arch == arch) refuse(file, "two kernels for sm_" + arch);
      uses.push_back({arch});
      complete = false;
    }
    if (uses.empty()) continue;
    // Functions that were not inlined have their own spills.
    if (std::regex_search(line, match, spills))
      uses.back().spill_stores += std::stoll(match[1]), uses.back().spill_loads += std::stoll(match[2]);
    if (std::regex_search(line, match, used)) {
      uses.back().registers = std::stoi(match[1]);
      if (std::regex_search(line, match, shared)) uses.back().shared = std::stoll(match[1]);
      complete = true;
    }
  }
  if (uses.empty()) refuse(file, "no kernel");
  if (!complete) refuse(file, "no number of registers for sm_" + uses.back().arch);
  return uses;
}

Occupancy occupancy(const KernelUse& use, std::int64_t threads) {
  const int capability = std::stoi(use.arch);  // the architecture without its letter
  const auto found = std::find_if(std::begin(kMultiprocessors), std::end(kMultiprocessors),
                                  [&](const Multiprocessor& m) { return m.capability == capability; });
  if (found == std::end(kMultiprocessors))
    throw Failure(Exit::internal, "the limits of a multiprocessor are unknown for sm_" + use.arch);
  const std::int64_t warps = (threads + 31) / 32;
  const std::int64_t registers_of_warp = rounded_up(std::max(use.registers, 1) * 32, kRegisterUnit);
  const std::int64_t by_registers = kRegisters / registers_of_warp / kWarpUnit * kWarpUnit / warps;
  const std::int64_t by_shared = found->shared * 1024 / rounded_up(use.shared + kReservedShared, kSharedUnit);
  const std::int64_t by_threads = found->threads / (warps * 32);
  const std::int64_t blocks = std::min({by_registers, by_shared, by_threads, std::int64_t{found->blocks}});
  return {static_cast<int>(blocks), static_cast<double>(blocks * warps * 32) / found->threads};
}

}  // namespace llmc::build
