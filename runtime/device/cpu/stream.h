// The order in which work runs on the CPU: everything runs at once, so a stream has no state.
#pragma once

#include "device/device.h"

namespace llmc {

struct Stream {};

}  // namespace llmc
