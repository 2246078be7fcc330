// Loss over the rate, or over another key with numbers, for the page of `llmc report`.
#pragma once

#include <nlohmann/json.hpp>

#include "compiler/tools/sweep/record.h"

namespace llmc::sweep {

/// Returns {"x": key, "of": "val_loss" | "loss", "charts": [{"by": key, "lines": [{"name", "x": [...], "y": [...]}]}]}:
/// a chart for each other key, with a line for each of its values. y is the lowest loss over the keys that are neither.
/// x is optimizer.lr, else the first key whose values are numbers; a grid without one has no charts.
nlohmann::ordered_json charts(const Record& record);

}  // namespace llmc::sweep
