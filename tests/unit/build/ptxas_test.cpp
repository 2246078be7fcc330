// Parses ptxas reports of kernels and computes occupancy from them.
#include "compiler/build/ptxas.h"

#include <gtest/gtest.h>

#include "error.h"

namespace llmc::build {
namespace {

// nvcc 13.0 -Xptxas -v -maxrregcount=32 for two architectures.
constexpr char kReport[] =
    R"(ptxas info    : Overriding maximum register limit 256 for '_Z7spilledPKfPfi' with  32 of maxrregcount option
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z7spilledPKfPfi' for 'sm_80'
ptxas info    : Function properties for _Z7spilledPKfPfi
    528 bytes stack frame, 948 bytes spill stores, 1076 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 528 bytes cumulative stack size, 372 bytes cmem[0]
ptxas info    : Compile time = 29.963 ms
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z7spilledPKfPfi' for 'sm_90a'
ptxas info    : Function properties for _Z7spilledPKfPfi
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 61 registers, used 1 barriers, 528 bytes smem
ptxas info    : Compile time = 57.167 ms
)";

TEST(Ptxas, ReadsEachArchitecture) {
  const std::vector<KernelUse> uses = parse_ptxas(kReport, "spilled.ptxas");
  ASSERT_EQ(uses.size(), 2u);
  EXPECT_EQ(uses[0].arch, "80");
  EXPECT_EQ(uses[0].registers, 32);
  EXPECT_EQ(uses[0].spill_stores, 948);
  EXPECT_EQ(uses[0].spill_loads, 1076);
  EXPECT_EQ(uses[0].shared, 0);
  EXPECT_EQ(uses[1].arch, "90a");
  EXPECT_EQ(uses[1].registers, 61);
  EXPECT_EQ(uses[1].spill_stores + uses[1].spill_loads, 0);
  EXPECT_EQ(uses[1].shared, 528);
}

TEST(Ptxas, WarningsAreTheRest) {
  EXPECT_EQ(without_ptxas(kReport), "");
  EXPECT_EQ(without_ptxas(std::string("a.cu(3): warning\n    int x;\n") + kReport + "ptxas warning : odd\n"),
            "a.cu(3): warning\n    int x;\nptxas warning : odd\n");
}

TEST(Ptxas, RefusesWhatIsNoReport) {
  const std::string report = kReport;
  for (const std::string& text : {std::string(), std::string("nvcc warning : nothing\n"), report + report,
                                  report.substr(0, report.find("ptxas info    : Used")),
                                  report.substr(0, report.rfind("ptxas info    : Used"))}) {
    try {
      parse_ptxas(text, "kernels/a.ptxas");
      FAIL() << text;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), Exit::toolchain);
      EXPECT_EQ(std::string(failure.what()).rfind("kernels/a.ptxas: ", 0), 0u) << failure.what();
    }
  }
}

/// Blocks and per cent.
std::pair<int, int> fits(const char* arch, int registers, int shared, int threads) {
  const Occupancy o = occupancy({arch, registers, 0, 0, shared}, threads);
  return {o.blocks, static_cast<int>(100 * o.share + 0.5)};
}

// Computed by hand: 65,536 registers allocated in units of 256 per warp, for groups of four warps; 1 KiB of reserved
// shared memory per block.
TEST(Ptxas, Occupancy) {
  using Fit = std::pair<int, int>;
  EXPECT_EQ(fits("90a", 32, 0, 1024), Fit(2, 100));   // threads
  EXPECT_EQ(fits("90a", 64, 256, 1024), Fit(1, 50));  // 32 warps of 2,048 registers
  EXPECT_EQ(fits("90a", 65, 0, 1024), Fit(0, 0));     // 28 warps of 2,304
  EXPECT_EQ(fits("90a", 61, 528, 512), Fit(2, 50));
  EXPECT_EQ(fits("90a", 166, 256, 128), Fit(3, 19));      // 12 warps of 5,376
  EXPECT_EQ(fits("90a", 16, 0, 32), Fit(32, 50));         // blocks
  EXPECT_EQ(fits("90a", 32, 48 << 10, 128), Fit(4, 25));  // 228 KiB of shared memory
  EXPECT_EQ(fits("80", 32, 48 << 10, 128), Fit(3, 19));   // 164
  EXPECT_EQ(fits("86", 32, 0, 512), Fit(3, 100));         // 1,536 threads
  EXPECT_EQ(fits("120a", 40, 0, 32), Fit(24, 50));
}

}  // namespace
}  // namespace llmc::build
