// Turns --device into the overrides that plan a spec for that device.
#pragma once

#include <string>
#include <vector>

#include "compiler/cli/specs.h"
#include "compiler/devices/device.h"

namespace llmc::cli {

/// Throws Failure(usage) if there is no such device.
devices::Device device_of_option(const std::string& name);

/// Returns the overrides that plan the spec for the device `name`: target.device, and those of target.kind,
/// target.arch, memory.budget and precision.* that differ. Leaves out keys that `arguments` override.
std::vector<std::string> overrides_for_device(const SpecArguments& arguments, const std::string& name);

}  // namespace llmc::cli
