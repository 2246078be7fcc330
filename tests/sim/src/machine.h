// Runs the lanes of a cluster's blocks. lanes.cpp has what concerns one block, cluster.cpp what concerns several,
// copies.cpp barriers of copies.
#pragma once

#include <dlfcn.h>
#include <link.h>
#include <sys/mman.h>

#include <boost/context/fiber.hpp>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "block.h"
#include "device/cuda/tile_map.h"
#include "lanes.h"
#include "report.h"
#include "shadow.h"

namespace sim {

namespace context = boost::context;

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

using Place = const std::source_location&;

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
  void init_barrier(void* barrier, int arrivals, Place where);
  void fence_barrier_init();
  void arrive(void* barrier, unsigned rank, int bytes, Place where);
  void wait_for_phase(void* barrier, int parity, Place where);
  void copy_box(void* shared, const llmc::TileMap& map, const int (&at)[4], void* barrier, unsigned blocks,
                Place where);

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
  Block& block_of_cluster(unsigned rank, Place where);
  PhaseBarrier& barrier_of(Block& block, const void* barrier, Place where);
  void end_phase_if_all_came(Block& block, PhaseBarrier& barrier);
  std::byte* shared_of(Block& block) { return &block == entered_ ? segment_.begin : block.shared.data(); }
  [[noreturn]] void report_at(Place where, const std::string& what);
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

extern Machine* the_machine;  // created by the first kernel, and kept: lanes' stacks cannot be unwound

inline Machine& machine() { return *the_machine; }

}  // namespace sim
