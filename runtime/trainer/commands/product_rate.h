// Measures GEMM throughput at start; metrics report the run's share of it.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "comm/rendezvous.h"
#include "device/device.h"
#include "math/gemm.h"
#include "program/program.h"

namespace llmc {

/// FLOP/s, and the GEMM that was timed.
struct ProductRate {
  double flops = 0;
  GemmShape shape;
};

/// The GEMM with the most FLOPs among those that multiply rows by weights without accumulating. `bounded`: with fewer
/// columns, then rows, in multiples of 64, if it has more than kBoundedFlops. Nothing if there is no GEMM.
std::optional<GemmShape> measured_shape(std::span<const GemmShape> products, bool bounded);

inline constexpr double kBoundedFlops = 1e9;  // 10 ms on two slow cores

/// Times that GEMM on random numbers, with the trainer's library and types, and returns the fastest of several rounds.
/// Frees its device memory before returning. On cpu the GEMM is bounded, so that this takes about 50 ms at most.
/// Nothing if the run has no such GEMM or the device no memory for it.
std::optional<ProductRate> measure_products(const ProgramInfo& info, int device_index, int threads);

/// Fills memory with numbers between -1 and 1, of codes between the largest ones, that repeat every 64 Ki elements.
void fill_random(Device& device, std::byte* memory, std::size_t bytes, DType dtype);

/// Text for the log: "134.2 GFLOP/s measured, 2048 x 4096 x 256 in fp32".
std::string describe(const ProductRate& rate);

/// Total FLOP/s of all ranks' devices, measured simultaneously; nothing if one has no rate. Collective.
std::optional<double> rate_of_ranks(Rendezvous& ranks, const std::optional<ProductRate>& mine);

}  // namespace llmc
