// Precompiled prefix of a simulated kernel, like host.h.
#include "cuda_runtime.h"
