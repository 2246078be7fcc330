// Formats memory.recompute: "auto", "full", "{every: 2}", "[norms, swiglu]", "{layers: {0-7: full, 8-15: [norms]}}".
#pragma once

#include <optional>
#include <string>

#include "spec/spec.h"

namespace llmc::spec {

std::string recompute_text(const Recompute& recompute);

/// "full", "none" or "[norms, swiglu]": the value of a range.
std::string recomputed_text(const RecomputeRange& range);

/// "0-7", or "3" for a single layer.
std::string range_text(const RecomputeRange& range);

/// Parses the output of range_text; accepts only ranges from a lower to a higher layer.
std::optional<RecomputeRange> parse_range(const std::string& text);

}  // namespace llmc::spec
