// Simulated twin of runtime/device/cuda/ptx.h, found before it: the same functions in plain C++.
#pragma once

#include <cuda_runtime.h>

#include <bit>

namespace sim {

/// Waits until `threads` lanes of the block have come to barrier `id`.
void synchronize_named(int id, int threads);

int cluster_rank();
int cluster_size();
/// Waits for all lanes of the cluster.
void synchronize_cluster();
/// What `mine`, in shared memory, is in the block of number `rank` of the cluster.
float read_shared_of(const float* mine, int rank);

}  // namespace sim

namespace llmc {

inline void named_barrier(int id, int threads) { sim::synchronize_named(id, threads); }

/// Rounds to the nearest, ties to even; NaN is 0x7fff, as the instruction gives it.
inline unsigned short bf16_bits(float v) {
  const unsigned bits = std::bit_cast<unsigned>(v);
  if (v != v) return 0x7fff;
  return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline unsigned bf16_pair(float low, float high) {
  return bf16_bits(low) | static_cast<unsigned>(bf16_bits(high)) << 16;
}

inline int cluster_rank() { return sim::cluster_rank(); }
inline int cluster_size() { return sim::cluster_size(); }
inline void cluster_barrier() { sim::synchronize_cluster(); }
inline float cluster_read(const float* shared, int rank) { return sim::read_shared_of(shared, rank); }

}  // namespace llmc
