#include "device/range.h"

#include "device/cpu/stream.h"

namespace llmc {

Range::Range(Stream& stream, const char* name) : listener_(stream.listener) {
  if (listener_) listener_->enter(name);
}

Range::~Range() {
  if (listener_) listener_->leave();
}

}  // namespace llmc
