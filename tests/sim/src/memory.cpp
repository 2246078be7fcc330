#include "memory.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <map>

#include "report.h"
#include "shadow.h"

namespace sim {
namespace {

constexpr std::size_t kGap = 4096;  // gap between allocations, so that overruns touch no other
constexpr std::size_t kLargeAlignment = std::size_t{2} << 20;  // the driver maps whole granules
constexpr std::size_t kSmallAlignment = 512;

struct Heap {
  std::uintptr_t begin = 0, next = 0;
  std::map<std::uintptr_t, Allocation> live;
  std::size_t device_bytes = 0;
  int allocations = 0;

  Heap() {
    void* memory =
        mmap(nullptr, kHeapBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) report("no address space for the simulated device's memory");
    begin = next = reinterpret_cast<std::uintptr_t>(memory);
  }
};

Heap& heap() {
  static Heap* const one = new Heap;
  return *one;
}

}  // namespace

std::uintptr_t heap_begin() { return heap().begin; }

bool in_heap(std::uintptr_t address) { return address - heap().begin < kHeapBytes; }

void* allocate(std::size_t bytes, bool pinned) {
  Heap& h = heap();
  if (!pinned && bytes > device_bytes_free()) return nullptr;
  const std::size_t alignment = bytes >= kLargeAlignment ? kLargeAlignment : kSmallAlignment;
  const std::uintptr_t begin = (h.next + kGap + alignment - 1) / alignment * alignment;
  if (begin + bytes > h.begin + kHeapBytes) report("the simulated device's addresses are used up");
  h.next = begin + bytes;
  h.live[begin] = {begin, bytes, ++h.allocations, pinned};
  if (!pinned) h.device_bytes += bytes;
  void* memory = reinterpret_cast<void*>(begin);
  std::memset(memory, 0xff, bytes);
  return memory;
}

bool release(void* memory, bool pinned) {
  Heap& h = heap();
  const auto at = h.live.find(reinterpret_cast<std::uintptr_t>(memory));
  if (at == h.live.end() || at->second.pinned != pinned) return false;
  if (!pinned) h.device_bytes -= at->second.bytes;
  forget_allocation();
  h.live.erase(at);
  return true;
}

const Allocation* find_allocation(std::uintptr_t address) {
  const auto& live = heap().live;
  auto after = live.upper_bound(address);
  if (after == live.begin()) return nullptr;
  const Allocation& found = (--after)->second;
  return address - found.begin < found.bytes ? &found : nullptr;
}

bool is_device(const void* memory) {
  const Allocation* found = find_allocation(reinterpret_cast<std::uintptr_t>(memory));
  return found && !found->pinned;
}

bool is_pinned(const void* memory) {
  const Allocation* found = find_allocation(reinterpret_cast<std::uintptr_t>(memory));
  return found && found->pinned;
}

std::size_t device_bytes_total() {
  const char* text = std::getenv("LLMC_SIM_MEMORY_MIB");
  return (text ? std::strtoull(text, nullptr, 10) : 4096) << 20;
}

std::size_t device_bytes_free() {
  const std::size_t total = device_bytes_total();
  return total > heap().device_bytes ? total - heap().device_bytes : 0;
}

std::string describe_bytes(std::uintptr_t address, std::size_t bytes) {
  const Allocation* found = find_allocation(address);
  if (!found) return std::to_string(bytes) + " bytes outside of any allocation";
  const std::size_t begin = address - found->begin;
  return "bytes [" + std::to_string(begin) + ", " + std::to_string(begin + bytes) + ") of " +
         (found->pinned ? "pinned " : "") + "allocation " + std::to_string(found->number) + ", which has " +
         std::to_string(found->bytes);
}

}  // namespace sim
