#include "device/range.h"

namespace llmc {

Range::Range(const char*) {}
Range::~Range() {}

}  // namespace llmc
