// Runs a kernel on a stream.
#pragma once

#if defined(__CUDACC__)
#include "device/cuda/launch.h"
#else
#include "device/cpu/launch.h"
#endif
