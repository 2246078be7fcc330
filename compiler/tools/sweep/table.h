// Shows a sweep's runs and its best setting as text.
#pragma once

#include <string>

#include "compiler/tools/sweep/record.h"

namespace llmc::sweep {

/// A line for each run, ranked runs first, by ascending loss; then the best setting, its neighbours and edges.
std::string as_text(const Record& record);

}  // namespace llmc::sweep
