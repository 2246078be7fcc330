// The simulated device's memory, and pinned host memory: one range of addresses, so that every byte has a shadow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace sim {

struct Allocation {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
  int number = 0;  // in order of allocation, from 1
  bool pinned = false;
};

/// Filled with 0xff bytes, NaN in every float type. Null if the device is full (pinned memory has no limit). Addresses
/// are never reused.
void* allocate(std::size_t bytes, bool pinned);
/// False if `memory` is not the start of such an allocation.
bool release(void* memory, bool pinned);

/// Allocation that contains the address, or null.
const Allocation* find_allocation(std::uintptr_t address);
bool is_device(const void* memory);
bool is_pinned(const void* memory);

std::size_t device_bytes_total();  // LLMC_SIM_MEMORY_MIB; default 4096
std::size_t device_bytes_free();

/// "bytes [16, 20) of allocation 1, which has 4096"; also describes bytes outside of every allocation.
std::string describe_bytes(std::uintptr_t address, std::size_t bytes);

/// Returns whether an address is in this range, allocated or not.
bool in_heap(std::uintptr_t address);
std::uintptr_t heap_begin();
constexpr std::size_t kHeapBytes = std::size_t{32} << 30;

}  // namespace sim
