// Stand-in for the profiler's switch: a simulator's log shows when it was on (LLMC_SIM_LOG).
#pragma once

#include "cuda_runtime_api.h"

extern "C" {
cudaError_t cudaProfilerStart();
cudaError_t cudaProfilerStop();
}
