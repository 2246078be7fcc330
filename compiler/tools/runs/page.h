// Runs side by side as one HTML page that needs nothing else: `llmc report`.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "compiler/tools/runs/record.h"

namespace llmc::runs {

/// The page. Whatever stands in the runs is data in it, never markup or code. `points`: see thinned().
std::string page(std::span<const Record> runs, std::size_t points);

}  // namespace llmc::runs
