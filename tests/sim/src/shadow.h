// Records the last readers and writers of each byte, and checks that each access is ordered after them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "block_order.h"
#include "memory.h"
#include "order.h"
#include "shared_layout.h"
#include "stamp.h"

namespace sim {

/// The running code: updated by the scheduler of lanes, read at each access.
struct Now {
  Stamp stamp = 0;  // of the lane, or of an operation that is no kernel
  std::uint32_t operation = 0;
  bool after_all = true;  // Order::after_all()
  int lane = 0;
  const BlockOrder* block = nullptr;                          // null outside of kernels
  std::uintptr_t allocation_begin = 0, allocation_bytes = 0;  // last accessed allocation
  std::uintptr_t shared_begin = 0, shared_bytes = 0;          // this block's shared memory
  std::uintptr_t unused_begin = 0, unused_bytes = 0;          // part of it that the launch did not ask for
  Cell* shared_cells = nullptr;
  Granule* granules = nullptr;
  std::uintptr_t stacks_begin = 0, stacks_bytes = 0;  // of all lanes
};
extern Now now;

/// Order has started an operation: later accesses belong to it.
void begin_accesses();
void forget_allocation();

enum class Access { read, write };

/// Checks and records an access to [address, address + bytes) of device or pinned memory by the running code. Reports
/// accesses outside of any allocation, and those not ordered after an earlier conflicting access.
void touch(Access access, const void* address, std::size_t bytes);
/// `rows` accesses of `bytes`, `pitch` bytes apart.
void touch_rows(Access access, const void* address, std::size_t rows, std::size_t bytes, std::size_t pitch);

/// Same for one load or store of a lane, to any address: its stack, shared memory, device memory, constants.
void touch_from_lane(Access access, std::uintptr_t address, std::size_t bytes);
/// A copy to this block's shared memory starts, or has arrived.
void touch_copy(std::uintptr_t shared, std::size_t bytes, bool arrived);
/// A copy that the hardware makes, for the running lane, to shared memory of a block of the cluster: checks that all
/// earlier accesses happened before; and records that it has arrived.
void check_copy(const Cell* cells, std::size_t offset, std::size_t bytes);
void record_copy(Cell* cells, std::size_t offset, std::size_t bytes, Stamp stamp);
/// For shared memory of another block of the cluster.
void touch_shared(Access access, Cell* cells, std::size_t offset, std::size_t bytes);

}  // namespace sim
