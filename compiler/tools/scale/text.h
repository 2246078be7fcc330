// Writes a scaled spec as YAML.
#pragma once

#include <span>
#include <string>

#include "compiler/tools/scale/rules.h"

namespace llmc::scale {

/// Returns a spec that extends `base` with the changes, each with its formula. `heading`: comment lines.
std::string as_yaml(std::span<const Change> changes, const std::string& base, std::span<const std::string> heading);

}  // namespace llmc::scale
