// Who read and wrote each byte last, and the check that something orders what touches it now.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block_order.h"
#include "memory.h"
#include "order.h"
#include "stamp.h"

namespace sim {

/// What runs now: kept by the scheduler of lanes, read at each access.
struct Now {
  Stamp stamp = 0;  // of the lane, or of an operation that is no kernel
  std::uint32_t operation = 0;
  bool after_all = true;  // Order::after_all()
  int lane = 0;
  const BlockOrder* block = nullptr;                          // null outside of kernels
  std::uintptr_t allocation_begin = 0, allocation_bytes = 0;  // the one touched last
  std::uintptr_t shared_begin = 0, shared_bytes = 0;          // this block's shared memory
  Cell* shared_cells = nullptr;
  std::uint8_t* arriving = nullptr;                   // of each granule of it: asynchronous copies on their way there
  std::uintptr_t stacks_begin = 0, stacks_bytes = 0;  // of all lanes
};
extern Now now;

/// Order has begun an operation: accesses are its from here on.
void begin_accesses();
void forget_allocation();

enum class Access { read, write };

/// Checks and notes an access to [address, address + bytes) of device or pinned memory by what runs now. Reports when
/// it lies outside of any allocation, or when nothing orders it after an earlier access to the same bytes.
void touch(Access access, const void* address, std::size_t bytes);
/// `rows` times `bytes`, one each `pitch` bytes.
void touch_rows(Access access, const void* address, std::size_t rows, std::size_t bytes, std::size_t pitch);

/// The same for one load or store of a lane, wherever it goes: its stack, shared memory, device memory, constants.
void touch_from_lane(Access access, std::uintptr_t address, std::size_t bytes);
/// Shared memory of this block: a copy to it sets out, or has arrived.
void touch_copy(std::uintptr_t shared, std::size_t bytes, bool arrived);
/// For shared memory of another block of the cluster.
void touch_shared(Access access, Cell* cells, std::size_t offset, std::size_t bytes);

}  // namespace sim
