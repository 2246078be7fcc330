// Compares runs on one self-contained HTML page: `llmc report`.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "compiler/tools/runs/record.h"

namespace llmc::runs {

/// Returns the page. Strings of the runs are data in it, never markup or code. `points`: see thinned(). `sweeps`: array
/// of sweep::charts(), each with its "folder" and "table".
std::string page(std::span<const Record> runs, std::size_t points, nlohmann::ordered_json sweeps);

}  // namespace llmc::runs
