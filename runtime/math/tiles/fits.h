// Decides whether a matrix product can be computed in AMX tiles.
#pragma once

#include "math/tiles/linear.h"
#include "math/tiles/weight_gradient.h"

namespace llmc {

constexpr bool fits_tiles(const GemmShape& shape) { return is_linear_product(shape) || is_weight_gradient(shape); }

}  // namespace llmc
