// Execution order on the CPU: all work runs immediately.
#pragma once

#include "device/device.h"
#include "device/timeline.h"

namespace llmc {

struct Stream {
  LaunchListener* listener = nullptr;  // while a step is timed
};

}  // namespace llmc
