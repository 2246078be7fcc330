// Blocks of a cluster: their barrier, and writes to each other's shared memory.
#include <cstring>

#include "cuda_runtime.h"
#include "device/cuda/ptx.h"  // functions of the counterpart
#include "machine.h"

namespace sim {

void Machine::arrive_at_cluster(bool release) {
  Lane& mine = lane();
  if (mine.arrivals > mine.waits)
    report("kernel " + order().name(now.operation) + ": lane " + std::to_string(mine.index) +
           " comes to the barrier of its cluster twice without waiting at it");
  ++mine.arrivals;
  ++cluster_barrier_.arrived;
  if (release) mine.block->order.releases[mine.index / kWarp] = true;
  complete_cluster_barrier_if_all_came();
  update_stamp();
}

void Machine::wait_for_cluster() {
  Lane& mine = lane();
  if (mine.arrivals == mine.waits)
    report("kernel " + order().name(now.operation) + ": lane " + std::to_string(mine.index) +
           " waits at the barrier of its cluster without having come to it");
  ++mine.waits;
  if (cluster_barrier_.completed >= mine.waits) return;
  cluster_barrier_.waiting.push_back(&mine);
  go_on();
}

void Machine::complete_cluster_barrier_if_all_came() {
  if (!live_in_cluster() || cluster_barrier_.arrived != live_in_cluster()) return;
  for (unsigned b = 0; b < shape->cluster; ++b) blocks_[b]->order.meet_cluster();
  ++cluster_barrier_.completed;
  cluster_barrier_.arrived = 0;
  for (Lane* waiting : cluster_barrier_.waiting) waiting->block->ready.push_back(waiting);
  cluster_barrier_.waiting.clear();
}

int Machine::live_in_cluster() const {
  int live = 0;
  for (unsigned b = 0; b < shape->cluster; ++b) live += blocks_[b]->live;
  return live;
}

void Machine::write_shared_of(float4* mine, unsigned rank, float4 value) {
  const std::string kernel = "kernel " + order().name(now.operation);
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(mine) - now.shared_begin;
  if (offset >= now.shared_bytes || rank >= shape->cluster)
    report(kernel + " writes shared memory that no block of its cluster has");
  Block& to = *blocks_[rank];
  if (to.live == 0) report(kernel + " writes shared memory of a block that has ended");
  if (lane().waits == 0) report(kernel + " writes shared memory of a block that may not have begun");
  touch_shared(Access::write, to.shared_cells.data(), offset, sizeof value);
  if (&to == entered_)
    *mine = value;
  else
    std::memcpy(to.shared.data() + offset, &value, sizeof value);
}

int cluster_rank() {
  const BlockOrder& order = machine().lane().block->order;
  return static_cast<int>(order.index - order.first);
}

int cluster_size() { return static_cast<int>(machine().shape->cluster); }

void arrive_at_cluster(bool release) { machine().arrive_at_cluster(release); }
void wait_for_cluster() { machine().wait_for_cluster(); }
void write_shared_of(float4* mine, int rank, float4 value) {
  machine().write_shared_of(mine, static_cast<unsigned>(rank), value);
}

}  // namespace sim
