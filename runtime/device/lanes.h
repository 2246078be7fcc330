// What kernels on a GPU and the plan, which gives a row its lanes, both count with.
#pragma once

namespace llmc {

/// 16-byte vectors of a row that a lane keeps in registers at most. Longer rows are read again by each operation.
constexpr int kKeptVectors = 8;

/// Bytes of a row that a block of a cluster copies to shared memory ahead, at most. A kernel may name 48 KiB without
/// asking, of which lanes that meet take 4; two such blocks are on an SM at once.
constexpr int kAheadBytes = 40 << 10;

}  // namespace llmc
