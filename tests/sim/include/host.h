// Precompiled prefix of a simulated trainer's step and program, because parsing it takes most of a second. No guard: it
// is included once, by the command line, and g++ warns of a guard in a header that it precompiles.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "cuda_runtime.h"
