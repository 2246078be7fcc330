// What the step and the program of a simulated trainer begin with: precompiled, since to read it takes most of a
// second. No guard: it is included once, by the command line, and g++ warns of one in a header that it precompiles.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>

#include "cuda_runtime.h"
