// Constants shared by GPU kernels and the plan, which assigns lanes to rows.
#pragma once

namespace llmc {

/// Most 16-byte vectors of a row that a lane keeps in registers. Longer rows are read a second time by each operation.
constexpr int kKeptVectors = 8;

/// Most of a row whose softmax it computes, and of one in memory that an operation takes at once. With 64 registers,
/// which 1,024 threads on an SM have, there is room for four vectors and their softmax in fp32, or for five whose
/// softmax is computed a second time.
constexpr int kSoftmaxVectors = 5, kKeptPowers = 4;

/// Most bytes of a row that a block of a cluster copies to shared memory ahead. A kernel may use 48 KiB without opting
/// in, of which the lanes' exchange takes 4; two such blocks run on an SM at once.
constexpr int kAheadBytes = 40 << 10;

}  // namespace llmc
