// Constants shared by GPU kernels and the plan, which assigns lanes to rows.
#pragma once

namespace llmc {

/// Most 16-byte vectors of a row that a lane keeps in registers. Longer rows are read a second time by each operation.
constexpr int kKeptVectors = 5;

/// Most of these whose softmax a lane keeps too, in fp32. Those of longer rows are computed a second time: with 64
/// registers, which 1,024 threads on an SM have, there is no room for them.
constexpr int kKeptPowers = 4;

/// Most bytes of a row that a block of a cluster copies to shared memory ahead. A kernel may use 48 KiB without opting
/// in, of which the lanes' exchange takes 4; two such blocks run on an SM at once.
constexpr int kAheadBytes = 40 << 10;

}  // namespace llmc
