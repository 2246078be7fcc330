// Stand-in for NVTX: ranges are counted and written to the simulator's log (LLMC_SIM_LOG).
#pragma once

extern "C" {
/// The range's depth, 0 for the outermost; nvtxRangePop without a range gives -2.
int nvtxRangePushA(const char* message);
int nvtxRangePop();
}
