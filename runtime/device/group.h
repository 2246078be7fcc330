// The execution model of kernels: a group of lanes works on a row. One implementation a target, chosen by the compiler.
#pragma once

#if defined(__CUDACC__)
#include "device/cuda/group.h"
#else
#include "device/cpu/group.h"
#endif
