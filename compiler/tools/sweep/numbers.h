// Order of an axis' values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tools/sweep/grid.h"

namespace llmc::sweep {

/// Returns a value that is one number in the notation of its key, such as 3e-4 or 2Ki; of 20x, 20.
std::optional<double> number_of(const std::string& path, const std::string& value);

/// Whether all values are numbers that compare.
bool is_numeric(const Axis& axis);

/// Returns the indices of the values in ascending order; of values that are no numbers in the order as typed.
std::vector<std::size_t> ascending(const Axis& axis);

}  // namespace llmc::sweep
