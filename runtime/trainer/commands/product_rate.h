// How fast this device's own matrix products are: timed at start, so that metrics can say which share of it a run has.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "comm/rendezvous.h"
#include "device/device.h"
#include "math/gemm.h"
#include "program/program.h"

namespace llmc {

/// FLOP/s, and the product that was timed.
struct ProductRate {
  double flops = 0;
  GemmShape shape;
};

/// Of the products that only multiply rows by weights, and do not accumulate, the one with the most FLOPs. `bounded`:
/// with fewer columns, then rows, in multiples of 64, where it has more than kBoundedFlops. Nothing without a product.
std::optional<GemmShape> measured_shape(std::span<const GemmShape> products, bool bounded);

inline constexpr double kBoundedFlops = 1e9;  // 10 ms of two slow cores

/// The fastest of some rounds of that product, as the trainer's library computes it and in the types of the run, on
/// random numbers. The device's memory for it is freed before this returns. Bounded on cpu, where it all takes about
/// 50 ms at most. Nothing where the run has no such product, or the device has no memory for it.
std::optional<ProductRate> measure_products(const ProgramInfo& info, int device_index, int threads);

/// Writes numbers between -1 and 1, of which each 64 Ki elements are the same.
void fill_random(Device& device, std::byte* memory, std::size_t bytes, DType dtype);

/// For the log: "134.2 GFLOP/s measured, 2048 x 4096 x 256 in fp32".
std::string describe(const ProductRate& rate);

/// FLOP/s of all ranks' devices together, each measured while the others measure theirs; nothing where one has no rate.
/// Collective.
std::optional<double> rate_of_ranks(Rendezvous& ranks, const std::optional<ProductRate>& mine);

}  // namespace llmc
