// Declares the row of each kind of op; the file of the op defines it.
#pragma once

#include "compiler/ops/op.h"

namespace llmc::ops {

#define LLMC_ROW(kind, row) extern const OpRow k##row;
LLMC_OPS(LLMC_ROW)
#undef LLMC_ROW

}  // namespace llmc::ops
