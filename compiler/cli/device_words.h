// --device: the device of a command line, and the overrides that make a spec one for it.
#pragma once

#include <string>
#include <vector>

#include "compiler/cli/options.h"
#include "compiler/devices/device.h"

namespace llmc::cli {

/// Throws Failure(usage) where there is no such device.
devices::Device device_of_option(const std::string& name);

/// Overrides with which the spec is planned for the device `name`: target.device, and of target.kind, target.arch,
/// memory.budget and precision.* what the spec has for another one. Keys that `arguments` override already are left as
/// they are.
std::vector<std::string> words_for_device(const SpecArguments& arguments, const std::string& name);

}  // namespace llmc::cli
