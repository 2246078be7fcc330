// Results of instructions that are documented only by their maximum error.
#include <bit>
#include <cmath>
#include <cstdint>

#include "cuda_runtime.h"
#include "device/cuda/ptx.h"  // functions of the counterpart

namespace sim {

float within_ulps(double exact, float argument, int most) {
  const float nearest = static_cast<float>(exact);
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest), magnitude = bits & 0x7fffffffu;
  if (magnitude < 0x00800000u) return std::copysign(0.0f, nearest);
  if (magnitude >= 0x7f800000u) return nearest;
  const std::uint64_t mixed = (std::bit_cast<std::uint32_t>(argument) + 1ull) * 0x9e3779b97f4a7c15ull;
  const int off = static_cast<int>((mixed >> 32) % static_cast<std::uint64_t>(2 * most + 1)) - most;
  const std::uint32_t moved = magnitude + static_cast<std::uint32_t>(off);
  if (moved < 0x00800000u || moved >= 0x7f800000u) return nearest;
  return std::bit_cast<float>((bits & 0x80000000u) | moved);
}

}  // namespace sim
