// Constants shared by GPU kernels and the plan, which assigns lanes to rows.
#pragma once

namespace llmc {

/// Most 16-byte vectors of a row that a lane keeps in registers. Longer rows are read a second time by each operation.
constexpr int kKeptVectors = 8;

/// Most bytes of a row that a block of a cluster copies to shared memory ahead. A kernel may use 48 KiB without opting
/// in, of which the lanes' exchange takes 4; two such blocks run on an SM at once.
constexpr int kAheadBytes = 40 << 10;

}  // namespace llmc
