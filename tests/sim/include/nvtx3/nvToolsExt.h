// Stand-in for NVTX: ranges are counted, and a simulator's log shows them (LLMC_SIM_LOG).
#pragma once

extern "C" {
/// The range's depth, 0 for the outermost; nvtxRangePop without a range gives -2.
int nvtxRangePushA(const char* message);
int nvtxRangePop();
}
