// The order in which work runs on the CPU: everything runs at once.
#pragma once

#include "device/device.h"
#include "device/timeline.h"

namespace llmc {

struct Stream {
  LaunchListener* listener = nullptr;  // of a step that is timed
};

}  // namespace llmc
