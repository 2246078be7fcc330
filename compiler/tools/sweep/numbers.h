// Order of an axis' values.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "compiler/tools/sweep/grid.h"

namespace llmc::sweep {

/// Returns a value that is one number, such as 3e-4.
std::optional<double> number_of(const std::string& value);

/// Whether all values are numbers.
bool is_numeric(const Axis& axis);

/// Returns the indices of the values in ascending order; of values that are no numbers in the order as typed.
std::vector<std::size_t> ascending(const Axis& axis);

}  // namespace llmc::sweep
