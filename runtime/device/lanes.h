// What kernels on a GPU and the plan, which gives a row its lanes, both count with.
#pragma once

namespace llmc {

/// 16-byte vectors of a row that a lane keeps in registers at most. Longer rows are read again by each operation.
constexpr int kKeptVectors = 8;

}  // namespace llmc
