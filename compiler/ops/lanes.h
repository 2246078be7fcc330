// Computes how many lanes share a row on a GPU, and the number of a kernel's blocks.
#pragma once

#include <algorithm>
#include <cstdint>

#include "device/lanes.h"
#include "program/dtype.h"

namespace llmc::ops {

struct LaunchShape {
  std::int64_t lanes, threads, blocks, cluster = 1;  // lanes: in one block
  std::int64_t shared = 0;                           // bytes of memory that a block's launch asks for
};

/// Returns a shape in which a lane keeps at most so many 16-byte vectors of a row in registers, up to 1,024 lanes. A
/// block has at least 128 threads, so narrow rows share one.
inline LaunchShape launch_shape(std::int64_t groups, std::int64_t width, DType dtype, std::int64_t of_lane = 4) {
  const std::int64_t vectors = (bytes_of(dtype, width) + 15) / 16;
  std::int64_t lanes = 32;
  while (lanes < 1024 && lanes * of_lane < vectors) lanes *= 2;
  const std::int64_t threads = std::max<std::int64_t>(lanes, 128);
  const std::int64_t groups_per_block = threads / lanes;
  return {lanes, threads, std::max<std::int64_t>(1, (groups + groups_per_block - 1) / groups_per_block)};
}

/// Returns the shape for rows so short that a warp holds several: as many lanes as a row has 16-byte vectors, from 4 to
/// a warp.
inline LaunchShape short_shape(std::int64_t groups, std::int64_t width, DType dtype) {
  const std::int64_t vectors = (bytes_of(dtype, width) + 15) / 16;
  std::int64_t lanes = 4;
  while (lanes < 32 && lanes < vectors) lanes *= 2;
  const std::int64_t threads = 128, groups_per_block = threads / lanes;
  return {lanes, threads, std::max<std::int64_t>(1, (groups + groups_per_block - 1) / groups_per_block)};
}

/// Returns the shape for a kernel that keeps several rows of fp32 numbers at once: eight columns per lane, up to 1,024
/// lanes, so that 64 or 80 registers suffice and an SM holds 1,024 or 768 threads.
inline LaunchShape resident_shape(std::int64_t groups, std::int64_t width) {
  return launch_shape(groups, 2 * width, DType::f32);
}

/// Returns the shape for streaming through a block's part of flat buffers: small blocks, so that some read while others
/// add up their sums.
inline LaunchShape stream_shape(std::int64_t groups) { return {256, 256, groups}; }

/// Same for streaming by blocks that share a scale: each is in the registers of a warp, and each warp has its own part.
inline LaunchShape block_stream_shape(std::int64_t groups) { return {32, 128, (groups + 3) / 4}; }

/// Partial sums left by the first of two adding steps. More than twice this many are added in two steps: in one, few
/// lanes would wait long.
constexpr std::int64_t kFoldedSums = 32;

/// Returns the row blocks of a column reduction. Their number depends on the shape alone, so that sums have one order
/// on every machine. At least 8 rows each keep partial sums small; the number is enough to fill a GPU, whose SMs run
/// four or more at once.
inline std::int64_t row_blocks(std::int64_t rows) {
  const std::int64_t blocks = std::clamp<std::int64_t>(rows / 8, 1, 1024);
  return blocks > 2 * kFoldedSums ? blocks / kFoldedSums * kFoldedSums : blocks;
}

/// Whether a block of a cluster holds its part of a row in shared memory while it processes the previous row.
inline bool fetched_ahead(std::int64_t lanes, std::int64_t cluster, std::int64_t bytes) {
  const std::int64_t per_turn = lanes * cluster * 16;
  return cluster > 1 && (bytes + per_turn - 1) / per_turn * lanes * 16 <= kAheadBytes;
}

/// Returns the shape for rows of more than 64 KiB, four vectors of each of 1,024 lanes, on devices with clusters: 512
/// lanes in each of up to eight blocks, which every such device can schedule together. A lane keeps four vectors, five
/// at most. Each operation rereads a longer row, which the L2 cache holds, because few clusters run at once. With many
/// rows a cluster has eight, because all but its first are fetched ahead.
inline LaunchShape cluster_shape(std::int64_t groups, std::int64_t width, DType dtype) {
  const std::int64_t bytes = bytes_of(dtype, width), lanes = 512, most = 8;
  if (bytes <= 64 << 10) return launch_shape(groups, width, dtype);
  std::int64_t cluster = 2;
  while (cluster < most && cluster * lanes * 4 * 16 < bytes) cluster *= 2;
  const std::int64_t each = fetched_ahead(lanes, cluster, bytes) ? std::clamp<std::int64_t>(groups / 64, 1, 8) : 1;
  return {lanes, lanes, (groups + each - 1) / each * cluster, cluster};
}

/// Whether a lane holds its part of a row in registers from its softmax to the gradient.
inline bool stays_in_registers(const LaunchShape& shape, std::int64_t width, DType dtype) {
  return bytes_of(dtype, width) <= shape.cluster * shape.lanes * kSoftmaxVectors * 16;
}

}  // namespace llmc::ops
