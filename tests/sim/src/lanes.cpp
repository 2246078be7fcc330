#include "lanes.h"

#include <algorithm>
#include <cstring>

#include "cuda_runtime.h"
#include "device/cuda/ptx.h"  // functions of the counterpart
#include "machine.h"

namespace sim {

Machine* the_machine = nullptr;

Worker& Machine::worker(std::size_t number) {
  while (workers_.size() <= number) {
    auto worker = std::make_unique<Worker>();
    const context::stack_context stack = stacks_.take(workers_.size());
    worker->fiber = context::fiber(std::allocator_arg, context::preallocated(stack.sp, stack.size, stack), KeepStack(),
                                   [this, self = worker.get()](context::fiber&& from) {
                                     left_->fiber = std::move(from);
                                     while (true) {
                                       update_stamp();
                                       (*body_)();
                                       lane_ended(*self->lane);
                                       go_on();
                                     }
                                     return context::fiber();
                                   });
    workers_.push_back(std::move(worker));
  }
  return *workers_[number];
}

void Machine::run(const LaunchShape& launch, const std::function<void()>& lane) {
  shape = &launch;
  body_ = &lane;
  segment_ = SharedSegment::of_this_thread();
  now.shared_begin = reinterpret_cast<std::uintptr_t>(segment_.begin);
  now.shared_bytes = segment_.bytes;
  now.unused_begin = reinterpret_cast<std::uintptr_t>(segment_.given) + launch.shared;
  now.unused_bytes = segment_.given ? kMostShared - launch.shared : 0;
  while (blocks_.size() < launch.cluster) {
    blocks_.push_back(std::make_unique<Block>());
    orders_.push_back(&blocks_.back()->order);
  }
  for (std::uint32_t turn = 0; turn < launch.grid.x; turn += launch.cluster) {
    const std::uint32_t first = reversed_ ? launch.grid.x - launch.cluster - turn : turn;
    entered_ = nullptr;
    cluster_barrier_ = ClusterBarrier();
    for (unsigned b = 0; b < launch.cluster; ++b) start(*blocks_[b], first + b, first);
    bool more = true;
    while (more) {
      more = false;
      for (unsigned b = 0; b < launch.cluster; ++b) {
        Block& block = *blocks_[b];
        if (block.ready.empty()) continue;
        more = true;
        enter(block);
        go_on();
      }
    }
    if (live_in_cluster()) report_deadlock(launch.cluster);
  }
  now.block = nullptr;
  now.shared_bytes = 0;
}

void Machine::start(Block& block, std::uint32_t index, std::uint32_t first) {
  const int lanes = static_cast<int>(shape->block.x);
  block.order = BlockOrder();
  block.order.index = index;
  block.order.first = first;
  block.order.blocks = shape->cluster;
  block.order.cluster = orders_.data();
  block.order.warps = (lanes + kWarp - 1) / kWarp;
  block.lanes.resize(static_cast<std::size_t>(lanes));
  block.live = lanes;
  block.barriers.clear();
  for (int i = 0; i < lanes; ++i) {
    Lane& lane = block.lanes[static_cast<std::size_t>(i)];
    lane = {};  // the storage may hold lanes of an earlier block
    lane.block = &block;
    lane.index = i;
    block.ready.push_back(&block.lanes[static_cast<std::size_t>(reversed_ ? lanes - 1 - i : i)]);
  }
  if (shape->cluster > 1) block.shared.assign(segment_.bytes, std::byte{0xff});
  block.shared_cells.resize(segment_.bytes / kGranule + 2);
  block.granules = shape->declared->granules;
}

/// Loads the block's shared memory. A block without a cluster has no saved copy: its memory starts as NaN.
void Machine::enter(Block& block) {
  if (shape->cluster > 1) {
    if (entered_ == &block) return;
    if (entered_) std::memcpy(entered_->shared.data(), segment_.begin, segment_.bytes);
    std::memcpy(segment_.begin, block.shared.data(), segment_.bytes);
  } else if (segment_.bytes && entered_ != &block) {
    segment_.poison(shape->shared);
  }
  entered_ = &block;
  now.block = &block.order;
  now.shared_cells = block.shared_cells.data();
  now.granules = block.granules.data();
}

/// Switches to the next runnable lane of the block, or to the caller.
void Machine::go_on() {
  auto& ready = entered_->ready;
  if (ready.empty()) return switch_to(caller_);
  Lane& lane = *ready.front();
  ready.pop_front();
  const std::size_t in_cluster = lane.block->order.index - lane.block->order.first;
  Worker& next = worker(in_cluster * kLanes + static_cast<std::size_t>(lane.index));
  next.lane = &lane;
  switch_to(next);
}

void Machine::switch_to(Worker& next) {
  if (&next != running_) {
    left_ = running_;
    running_ = &next;
    context::fiber from = std::move(next.fiber).resume();
    left_->fiber = std::move(from);  // set by the fiber that switched back
  }
  if (running_->lane) update_stamp();
}

void Machine::update_stamp() {
  const Lane& l = lane();
  now.lane = l.index;
  now.stamp =
      make_stamp(now.operation, l.block->order.index & (kBlocks - 1), l.index, l.block->order.clock[l.index / kWarp]);
}

void Machine::wake(Barrier& barrier) {
  for (Lane* waiting : barrier.waiting) waiting->block->ready.push_back(waiting);
  barrier.waiting.clear();
}

void Machine::wait_for(Barrier& barrier, int expected, void (Machine::*complete)(Block&, const Barrier&)) {
  Lane& mine = lane();
  barrier.expected = expected;
  barrier.waiting.push_back(&mine);
  if (static_cast<int>(barrier.waiting.size()) == expected) {
    (this->*complete)(*mine.block, barrier);
    wake(barrier);
  }
  go_on();
}

void Machine::lane_ended(Lane& lane) {
  if (!lane.copies.empty())
    report("kernel " + order().describe(now.operation) + ": lane " + std::to_string(lane.index) +
           " ends without waiting for an asynchronous copy");
  lane.finished = true;
  Block& block = *lane.block;
  --block.live;
  if (!block.live)
    for (const PhaseBarrier& barrier : block.barriers)
      if (!barrier.copies.empty())
        report("kernel " + order().describe(now.operation) + ": block " + std::to_string(block.order.index) +
               " ends before copies to it have come");
  // Exited lanes are not waited for.
  if (block.live && static_cast<int>(block.whole.waiting.size()) == block.live) {
    block_complete(block, block.whole);
    wake(block.whole);
  }
  if (lane.arrivals > cluster_barrier_.completed) --cluster_barrier_.arrived;
  complete_cluster_barrier_if_all_came();
}

void Machine::named_complete(Block& block, const Barrier& barrier) {
  std::uint32_t mask = 0;
  for (const Lane* lane : barrier.waiting) mask |= 1u << lane->index / kWarp;
  block.order.meet(mask);
}

unsigned long long Machine::meet(Meeting::Kind kind, unsigned mask, unsigned long long word, int source) {
  Lane& mine = lane();
  const unsigned number = static_cast<unsigned>(mine.index % kWarp);
  const auto wrong = [&](const char* what) {
    report("kernel " + order().name(now.operation) + ": lane " + std::to_string(mine.index) + what);
  };
  if (!(mask >> number & 1)) wrong(" calls a function of its warp with a mask that leaves it out");
  auto& meetings = mine.block->meetings[mine.index / kWarp];
  auto at = std::find_if(meetings.begin(), meetings.end(), [mask](const Meeting& m) { return m.mask == mask; });
  if (at == meetings.end()) {
    meetings.push_back({});
    at = meetings.end() - 1;
    at->mask = mask;
  }
  const auto index = at - meetings.begin();
  if (at->arrived && at->kind != kind) wrong(" calls another function of its warp than the lanes it is with");
  at->kind = kind;
  at->arrived |= 1u << number;
  at->word[number] = word;
  at->source[number] = source;
  if (at->arrived == mask) {
    unsigned votes = 0;
    for (unsigned i = 0; i < kWarp; ++i)
      if (mask >> i & 1) votes |= static_cast<unsigned>(at->word[i] != 0) << i;
    for (unsigned i = 0; i < kWarp; ++i) {
      if (!(mask >> i & 1)) continue;
      if (kind == Meeting::Kind::exchange && !(mask >> at->source[i] & 1))
        wrong(" shuffles with lanes that read one outside of the mask");
      at->result[i] = kind == Meeting::Kind::exchange ? at->word[at->source[i]] : votes;
    }
    at->arrived = 0;
    if (kind == Meeting::Kind::synchronize) mine.block->order.tick(mine.index / kWarp);
    for (unsigned i = 0; i < kWarp; ++i)
      if ((mask >> i & 1) && i != number)
        mine.block->ready.push_back(&mine.block->lanes[static_cast<std::size_t>(mine.index) - number + i]);
    update_stamp();
  } else {
    go_on();
  }
  return meetings[static_cast<std::size_t>(index)].result[number];
}

void Machine::report_deadlock(unsigned blocks) {
  std::string text = "deadlock in kernel " + order().name(now.operation);
  for (unsigned b = 0; b < blocks; ++b) {
    const Block& block = *blocks_[b];
    const auto at_cluster = std::count_if(cluster_barrier_.waiting.begin(), cluster_barrier_.waiting.end(),
                                          [&](const Lane* lane) { return lane->block == &block; });
    if (block.live) text += describe_waiting(block, static_cast<std::size_t>(at_cluster));
  }
  report(text);
}

void run_kernel(const LaunchShape& shape, const std::function<void()>& lane) {
  if (!the_machine) the_machine = new Machine;
  machine().run(shape, lane);
}

Lane& this_lane() { return machine().lane(); }
uint3 thread_index() { return {static_cast<unsigned>(now.lane), 0, 0}; }
uint3 block_index() { return {now.block->index, 0, 0}; }
dim3 block_size() { return machine().shape->block; }
dim3 grid_size() { return machine().shape->grid; }

void synchronize_block() {
  Block& block = *machine().lane().block;
  machine().wait_for(block.whole, block.live, &Machine::block_complete);
}

void synchronize_named(int id, int threads) {
  Block& block = *machine().lane().block;
  if (id < 1 || id >= kNamedBarriers || threads <= 0 || threads % kWarp)
    report("kernel " + order().name(now.operation) + ": barrier " + std::to_string(id) + " of " +
           std::to_string(threads) + " threads; the device has barriers 1 to 15, of whole warps");
  Barrier& barrier = block.named[id];
  if (!barrier.waiting.empty() && barrier.expected != threads)
    report("kernel " + order().name(now.operation) + ": lanes disagree on how many meet at barrier " +
           std::to_string(id));
  machine().wait_for(barrier, threads, &Machine::named_complete);
}

void synchronize_warp(unsigned mask) { machine().meet(Meeting::Kind::synchronize, mask, 0, 0); }

unsigned long long exchange(unsigned mask, unsigned long long word, int source) {
  return machine().meet(Meeting::Kind::exchange, mask, word, source);
}

void begin_copy(void* shared, const void* global, int bytes) {
  const auto count = static_cast<std::size_t>(bytes);
  if (global && reinterpret_cast<std::uintptr_t>(global) % count)
    report("kernel " + order().describe(now.operation) + ": an asynchronous copy of " + std::to_string(bytes) +
           " bytes from an address that is not a multiple of them");
  if (global) touch_from_lane(Access::read, reinterpret_cast<std::uintptr_t>(global), count);
  touch_copy(reinterpret_cast<std::uintptr_t>(shared), count, false);
  machine().lane().copies.push_back({shared, global, count});
}

void wait_for_copies() {
  for (const Copy& copy : machine().lane().copies) {
    touch_copy(reinterpret_cast<std::uintptr_t>(copy.shared), copy.bytes, true);
    if (copy.global)
      std::memcpy(copy.shared, copy.global, copy.bytes);
    else
      std::memset(copy.shared, 0, copy.bytes);
  }
  if (!machine().lane().copies.empty()) machine().lane().shown_to_warpgroups = false;
  machine().lane().copies.clear();
}

unsigned vote(unsigned mask, bool mine) {
  return static_cast<unsigned>(machine().meet(Meeting::Kind::vote, mask, mine, 0));
}

}  // namespace sim
