#include "lanes.h"

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <boost/context/fiber.hpp>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "block.h"
#include "cuda_runtime.h"
#include "device/cuda/ptx.h"  // functions of the counterpart
#include "report.h"
#include "shadow.h"

namespace sim {
namespace {

namespace context = boost::context;

constexpr int kMostBlocks = 16;  // of a cluster
constexpr std::size_t kStack = std::size_t{128} << 10, kGuard = 4096;

/// Stacks of lanes are contiguous, so that an address on one is recognised by two comparisons.
class Stacks {
 public:
  Stacks() {
    constexpr std::size_t kBytes = kStack * kLanes * kMostBlocks;
    void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) report("no address space for the lanes' stacks");
    begin_ = static_cast<char*>(memory);
    now.stacks_begin = reinterpret_cast<std::uintptr_t>(memory);
    now.stacks_bytes = kBytes;
  }
  context::stack_context take(std::size_t number) {
    char* bottom = begin_ + number * kStack;
    mprotect(bottom, kGuard, PROT_NONE);
    // Tops at equal distances would all map to the same few sets of a cache.
    const std::size_t shift = number % 61 * 320;
    context::stack_context stack;
    stack.sp = bottom + kStack - shift;
    stack.size = kStack - kGuard - shift;
    return stack;
  }

 private:
  char* begin_;
};

struct KeepStack {
  void deallocate(context::stack_context&) {}
};

/// A fiber that runs lanes one after the other; without a lane: the caller of kernels.
struct Worker {
  context::fiber fiber;  // while it is suspended
  Lane* lane = nullptr;
};

/// The thread-local segment of the program, which contains only the shared variables of its kernels.
struct SharedSegment {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  std::byte* given = nullptr;  // block_memory, kMostShared bytes

  static SharedSegment of_this_thread() {
    SharedSegment segment;
    dl_iterate_phdr(
        [](dl_phdr_info* info, std::size_t, void* out) {
          for (int i = 0; i < info->dlpi_phnum; ++i) {
            if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
            if (info->dlpi_phdr[i].p_filesz)
              report("the program has a thread_local with a value, in the segment that stands for shared memory");
            auto& found = *static_cast<SharedSegment*>(out);
            found.begin = static_cast<std::byte*>(info->dlpi_tls_data), found.bytes = info->dlpi_phdr[i].p_memsz;
          }
          return 1;  // the program itself comes first
        },
        &segment);
    // The program exports it if a kernel uses it. dlsym returns this thread's.
    segment.given = static_cast<std::byte*>(dlsym(RTLD_DEFAULT, "_ZN4llmc12block_memoryE"));
    return segment;
  }

  /// Fills it with NaN, but for what the launch has not asked for.
  void poison(std::size_t asked) const {
    std::byte *const end = begin + bytes, *const unused = given ? given + asked : end;
    std::memset(begin, 0xff, static_cast<std::size_t>(unused - begin));
    if (given) std::memset(given + kMostShared, 0xff, static_cast<std::size_t>(end - given) - kMostShared);
  }
};

class Machine {
 public:
  void run(const LaunchShape& shape, const std::function<void()>& lane);

  // Called from lanes.
  void wait_for(Barrier& barrier, int expected, void (Machine::*complete)(Block&, const Barrier&));
  void block_complete(Block& block, const Barrier&) { block.order.meet_all(); }
  void named_complete(Block& block, const Barrier& barrier);
  void arrive_at_cluster(bool release);
  void wait_for_cluster();
  unsigned long long meet(Meeting::Kind kind, unsigned mask, unsigned long long word, int source);
  Lane& lane() { return *running_->lane; }
  int live_in_cluster() const;
  void write_shared_of(float4* mine, unsigned rank, float4 value);

  const LaunchShape* shape = nullptr;

 private:
  void start(Block& block, std::uint32_t index, std::uint32_t first);
  void complete_cluster_barrier_if_all_came();
  void enter(Block& block);
  void switch_to(Worker& next);
  void go_on();
  void wake(Barrier& barrier);
  void lane_ended(Lane& lane);
  void update_stamp();
  Worker& worker(std::size_t number);
  [[noreturn]] void report_deadlock(unsigned blocks);

  const bool reversed_ = std::getenv("LLMC_SIM_REVERSED") != nullptr;  // blocks and lanes, the last ones first
  Stacks stacks_;
  SharedSegment segment_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::vector<std::unique_ptr<Block>> blocks_;  // of the cluster
  std::vector<BlockOrder*> orders_;
  ClusterBarrier cluster_barrier_;
  Worker caller_, *running_ = &caller_, *left_ = nullptr;  // left_: ran before running_
  Block* entered_ = nullptr;                               // whose shared memory is loaded
  const std::function<void()>* body_ = nullptr;
};

Machine* the_machine = nullptr;  // created by the first kernel, and kept: lanes' stacks cannot be unwound

Machine& machine() { return *the_machine; }

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
  for (int i = 0; i < lanes; ++i) {
    Lane& lane = block.lanes[static_cast<std::size_t>(i)];
    lane = {};  // the storage may hold lanes of an earlier block
    lane.block = &block;
    lane.index = i;
    block.ready.push_back(&block.lanes[static_cast<std::size_t>(reversed_ ? lanes - 1 - i : i)]);
  }
  if (shape->cluster > 1) block.shared.assign(segment_.bytes, std::byte{0xff});
  block.shared_cells.resize(segment_.bytes / kGranule + 2);
  block.arriving.assign(segment_.bytes / kGranule + 2, 0);
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
  now.arriving = block.arriving.data();
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

}  // namespace

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

unsigned vote(unsigned mask, bool mine) {
  return static_cast<unsigned>(machine().meet(Meeting::Kind::vote, mask, mine, 0));
}

}  // namespace sim
