#include "device/range.h"

#include <nvtx3/nvToolsExt.h>

namespace llmc {

Range::Range(const char* name) { nvtxRangePushA(name); }
Range::~Range() { nvtxRangePop(); }

}  // namespace llmc
