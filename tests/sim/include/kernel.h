// What a simulated kernel begins with, precompiled as host.h.
#include "cuda_runtime.h"
