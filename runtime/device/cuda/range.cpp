#include "device/range.h"

#include <nvtx3/nvToolsExt.h>

#include "device/cuda/stream.h"

namespace llmc {

Range::Range(Stream& stream, const char* name) : listener_(stream.listener) {
  nvtxRangePushA(name);
  if (listener_) listener_->enter(name);
}

Range::~Range() {
  if (listener_) listener_->leave();
  nvtxRangePop();
}

}  // namespace llmc
