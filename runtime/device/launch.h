// Launches a kernel: launch(stream, kernel, arguments...) on cpu, launch(stream, Grid{blocks, threads}, kernel,
// arguments...) on cuda.
#pragma once

#if defined(__CUDACC__)
#include "device/cuda/launch.h"
#else
#include "device/cpu/launch.h"
#endif
