// Stand-in for the profiler's switch; the simulator's log records it (LLMC_SIM_LOG).
#pragma once

#include "cuda_runtime_api.h"

extern "C" {
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();
}
