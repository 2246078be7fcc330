// Barriers in shared memory for copies that the hardware makes, of boxes of a tensor to blocks of the cluster
// (mbarrier, cp.async.bulk.tensor).
//
// A box arrives when the phase of its barrier ends. Until then its destination is NaN, and an access to it an error.
// Afterwards an access is a race unless the lane's warp has waited for that phase, or met one that has.
#include <algorithm>
#include <bit>
#include <cstring>
#include <span>

#include "cuda_runtime.h"
#include "device/cuda/ptx.h"  // functions of the counterpart
#include "encoded_map.h"
#include "machine.h"

namespace sim {
namespace {

constexpr std::size_t kBarrierBytes = 8, kLine = 128, kPiece = 16;  // kLine: bytes of a box's row

/// How many phases of the barrier at `offset` the lane has waited for.
int& phases_of(Lane& lane, std::size_t offset) {
  const auto at = std::ranges::find(lane.phases, offset, &std::pair<std::size_t, int>::first);
  if (at != lane.phases.end()) return at->second;
  return lane.phases.emplace_back(offset, 0).second;
}

/// Reads a box as it lies in shared memory from `to` on: eighth p of each 128 bytes at p ^ (their number % 8).
std::vector<std::byte> read_box(const EncodedMap& map, const int (&at)[4], std::uintptr_t to) {
  const std::size_t rows = std::size_t{map.box[1]} * map.box[2] * map.box[3];
  std::vector<std::byte> bytes(rows * kLine);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::int64_t place[] = {at[0], at[1] + static_cast<std::int64_t>(row % map.box[1]),
                                  at[2] + static_cast<std::int64_t>(row / map.box[1] % map.box[2]),
                                  at[3] + static_cast<std::int64_t>(row / map.box[1] / map.box[2])};
    bool inside = true;
    std::uint64_t from = map.address;
    for (int d = 1; d < kMapRank; ++d) {
      inside &= place[d] >= 0 && place[d] < static_cast<std::int64_t>(map.extents[d]);
      from += static_cast<std::uint64_t>(place[d]) * map.strides[d - 1];
    }
    if (!inside) continue;
    for (std::size_t piece = 0; piece < kLine / kPiece; ++piece) {
      const std::int64_t column = place[0] + static_cast<std::int64_t>(piece * kPiece / 2);
      const std::int64_t left = std::clamp<std::int64_t>(static_cast<std::int64_t>(map.extents[0]) - column, 0, 8);
      if (column < 0 || left == 0) continue;
      const std::uint64_t source = from + static_cast<std::uint64_t>(column) * 2;
      touch_from_lane(Access::read, source, static_cast<std::size_t>(left) * 2);
      const std::size_t line = (to / kLine + row) % 8;
      std::memcpy(&bytes[row * kLine + (piece ^ line) * kPiece], std::bit_cast<const void*>(source),
                  static_cast<std::size_t>(left) * 2);
    }
  }
  return bytes;
}

}  // namespace

void Machine::report_at(Place where, const std::string& what) {
  const std::string file = where.file_name();
  report("kernel " + order().name(now.operation) + ": lane " + std::to_string(lane().index) + " of block " +
         std::to_string(now.block->index) + what + " (" + file.substr(file.rfind('/') + 1) + ":" +
         std::to_string(where.line()) + ")");
}

/// The block `rank` of the cluster, for something that the running lane does to it.
Block& Machine::block_of_cluster(unsigned rank, Place where) {
  if (rank >= shape->cluster) report_at(where, " names a block that its cluster does not have");
  Block& block = *blocks_[rank];
  if (&block == lane().block) return block;
  if (block.live == 0) report_at(where, " sends to a block of its cluster that has ended");
  if (lane().waits == 0) report_at(where, " sends to a block of its cluster that may not have begun");
  return block;
}

/// The barrier at this place in the block's shared memory.
PhaseBarrier& Machine::barrier_of(Block& block, const void* barrier, Place where) {
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(barrier) - now.shared_begin;
  const auto at = std::ranges::find(block.barriers, offset, &PhaseBarrier::offset);
  if (at == block.barriers.end()) report_at(where, " uses a barrier of copies that nobody has initialised");
  if (!at->shown && (&block != lane().block || at->lane != lane().index))
    report_at(where, " uses a barrier of copies before fence_barrier_init() by the lane that initialised it");
  touch_shared(Access::read, block.shared_cells.data(), offset, kBarrierBytes);
  return *at;
}

void Machine::init_barrier(void* barrier, int arrivals, Place where) {
  Block& block = *lane().block;
  const auto address = reinterpret_cast<std::uintptr_t>(barrier);
  const std::size_t offset = address - now.shared_begin;
  if (offset >= now.shared_bytes || address % kBarrierBytes || arrivals < 1)
    report_at(
        where,
        " initialises a barrier of copies that is not in shared memory, not aligned to 8 bytes or without arrivals");
  if (block.order.warps == kWarps)
    report_at(where, " initialises a barrier of copies in a block of 1,024 lanes, which the simulator cannot do");
  if (std::ranges::find(block.barriers, offset, &PhaseBarrier::offset) != block.barriers.end())
    report_at(where, " initialises a barrier of copies again");
  touch_from_lane(Access::write, address, kBarrierBytes);
  block.barriers.push_back({.offset = offset, .lane = lane().index, .arrivals = arrivals, .missing = arrivals});
}

void Machine::fence_barrier_init() {
  for (PhaseBarrier& barrier : lane().block->barriers) barrier.shown |= barrier.lane == lane().index;
}

void Machine::arrive(void* barrier, unsigned rank, int bytes, Place where) {
  Lane& mine = lane();
  Block& block = block_of_cluster(rank, where);
  PhaseBarrier& at = barrier_of(block, barrier, where);
  if (at.missing == 0) report_at(where, " arrives at a barrier of copies where all have arrived in this phase");
  --at.missing;
  at.bytes += bytes;
  at.known.join(mine.block->order.release(mine.index / kWarp));
  end_phase_if_all_came(block, at);
  update_stamp();
}

void Machine::end_phase_if_all_came(Block& block, PhaseBarrier& barrier) {
  if (barrier.missing || barrier.bytes) return;
  BlockOrder& order_of_block = block.order;
  const int copies = order_of_block.warps;  // their clock
  const Stamp stamp =
      make_stamp(now.operation, order_of_block.index & (kBlocks - 1), copies * kWarp, order_of_block.clock[copies]);
  for (const BoxCopy& copy : barrier.copies) {
    std::memcpy(shared_of(block) + copy.offset, copy.bytes.data(), copy.bytes.size());
    std::fill_n(block.granules.begin() + static_cast<std::ptrdiff_t>(copy.offset / kGranule),
                copy.bytes.size() / kGranule, Granule::open);
    record_copy(block.shared_cells.data(), copy.offset, copy.bytes.size(), stamp);
  }
  order_of_block.tick(copies);
  barrier.known.clock[order_of_block.index - order_of_block.first][copies] = order_of_block.clock[copies];
  barrier.released.join(barrier.known);
  barrier.known = {};
  barrier.copies.clear();
  barrier.missing = barrier.arrivals;
  ++barrier.ended;
  for (Lane* waiting : barrier.waiting) waiting->block->ready.push_back(waiting);
  barrier.waiting.clear();
}

void Machine::wait_for_phase(void* barrier, int parity, Place where) {
  Lane& mine = lane();
  PhaseBarrier& at = barrier_of(*mine.block, barrier, where);
  int& waited_for = phases_of(mine, at.offset);
  if (parity == at.ended % 2) {
    const int before = at.ended;
    at.waiting.push_back(&mine);
    go_on();
    if (at.ended != before + 1)
      report_at(where, " waits for a phase of a barrier of copies, and the next one has ended too");
  } else if (at.ended <= waited_for) {
    report_at(where,
              " waits for the wrong phase of a barrier of copies: " +
                  std::string(at.ended ? "it has waited for that one before" : "there is none before the first"));
  }
  waited_for = at.ended;
  mine.block->order.acquire(mine.index / kWarp, at.released);
}

void Machine::copy_box(void* shared, const llmc::TileMap& map, const int (&at)[4], void* barrier, unsigned blocks,
                       Place where) {
  const EncodedMap of = std::bit_cast<EncodedMap>(map);
  if (of.mark != kMapMark) report_at(where, " copies by what is no map of a tensor");
  const auto to = reinterpret_cast<std::uintptr_t>(shared);
  const std::size_t offset = to - now.shared_begin;
  const std::size_t bytes = kLine * of.box[1] * of.box[2] * of.box[3];
  if (of.box[0] * 2 != kLine || to % kLine || offset >= now.shared_bytes || bytes > now.shared_bytes - offset ||
      (to < now.unused_begin + now.unused_bytes && to + bytes > now.unused_begin))
    report_at(where, " copies a box that is not of 128-byte rows to an aligned place in the block's shared memory");
  const std::vector<std::byte> box = read_box(of, at, to);
  for (unsigned rank = 0; blocks >> rank; ++rank) {
    if (!(blocks >> rank & 1)) continue;
    Block& block = block_of_cluster(rank, where);
    PhaseBarrier& of_block = barrier_of(block, barrier, where);
    check_copy(block.shared_cells.data(), offset, bytes);
    const auto to_granules = block.granules.begin() + static_cast<std::ptrdiff_t>(offset / kGranule);
    for (const Granule granule : std::span(to_granules, bytes / kGranule)) {
      if (granule == Granule::undeclared) report_at(where, " copies a box outside of the kernel's shared memory");
      if (granule == Granule::arriving) report_at(where, " copies a box to where another one is still to come");
    }
    std::fill_n(to_granules, bytes / kGranule, Granule::arriving);
    std::memset(shared_of(block) + offset, 0xff, bytes);
    of_block.copies.push_back({offset, box});
    of_block.bytes -= static_cast<long long>(bytes);
    end_phase_if_all_came(block, of_block);
  }
}

void init_barrier(void* barrier, int arrivals, const std::source_location& where) {
  machine().init_barrier(barrier, arrivals, where);
}
void fence_barrier_init() { machine().fence_barrier_init(); }
void arrive_at_barrier(void* barrier, int rank, int bytes, const std::source_location& where) {
  machine().arrive(barrier, static_cast<unsigned>(rank), bytes, where);
}
void wait_for_phase(void* barrier, int parity, const std::source_location& where) {
  machine().wait_for_phase(barrier, parity, where);
}
void copy_box(void* shared, const llmc::TileMap& map, const int (&at)[4], void* barrier, unsigned blocks,
              const std::source_location& where) {
  machine().copy_box(shared, map, at, barrier, blocks, where);
}

}  // namespace sim
