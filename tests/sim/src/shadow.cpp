#include "shadow.h"

#include <link.h>
#include <sys/mman.h>

#include <algorithm>
#include <string>
#include <vector>

#include "report.h"

namespace sim {

Now now;

namespace {

constexpr std::size_t kPage = 1024;  // bytes of memory that large operations record as one
constexpr std::size_t kCellsOfPage = kPage / kGranule;

enum class PageState : std::uint8_t { untouched, uniform, single };  // single: one cell per granule

struct Shadow {
  std::uintptr_t begin = heap_begin();
  Cell* cells;    // of each granule of the heap
  Cell* uniform;  // of each page
  PageState* state;

  Shadow()
      : cells(reserve<Cell>(kHeapBytes / kGranule)),
        uniform(reserve<Cell>(kHeapBytes / kPage)),
        state(reserve<PageState>(kHeapBytes / kPage)) {}

  template <class T>
  static T* reserve(std::size_t count) {
    void* memory =
        mmap(nullptr, count * sizeof(T), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) report("no address space for the shadow of the simulated device's memory");
    return static_cast<T*>(memory);
  }

  Cell* cells_of(std::uintptr_t address) {
    const std::size_t offset = address - begin;
    if (state[offset / kPage] != PageState::single) split(offset / kPage);
    return cells + offset / kGranule;
  }

  void split(std::size_t page) {
    Cell* first = cells + page * kCellsOfPage;
    const Cell all = state[page] == PageState::uniform ? uniform[page] : Cell{};
    std::fill(first, first + kCellsOfPage, all);
    state[page] = PageState::single;
  }
};

Shadow& shadow() {
  static Shadow* const one = new Shadow;
  return *one;
}

enum class Space { global, shared };

template <Space kSpace>
bool ordered_elsewhere(Stamp before) {
  const std::uint32_t operation = operation_of(before);
  if (operation != now.operation) {
    return kSpace == Space::shared || now.after_all || order().happened_before(operation);
  }
  return !now.block || now.block->ordered(before, now.lane, kSpace == Space::shared);
}

/// Inlined for the accesses of one lane and one block, which are most.
template <Space kSpace>
[[gnu::always_inline]] inline bool ordered(Stamp before) {
  const Stamp difference = before ^ now.stamp;
  if (is_of_lane(difference)) return true;
  if (is_of_block(difference) && now.block) return now.block->ordered_within(before, now.lane);
  return ordered_elsewhere<kSpace>(before);
}

const char* verb(Access access) { return access == Access::read ? "read" : "wrote"; }

/// `place`: describes the bytes.
[[noreturn]] void report_conflict(Access access, Stamp before, Access earlier, const std::string& place) {
  const std::uint32_t operation = operation_of(before);
  const std::string doing = access == Access::read ? "reads " : "writes ";
  if (operation != now.operation)
    report("race: " + order().describe(now.operation) + " " + doing + place + "; " + order().describe(operation) + " " +
           verb(earlier) + " them, and no event orders the two");
  const auto lane = [](std::uint32_t block, int number) {
    return "lane " + std::to_string(number) + " of block " + std::to_string(block);
  };
  const bool by_copy = lane_of(before) == now.block->warps * kWarp;
  report("race in kernel " + order().describe(now.operation) + ": " + lane(now.block->index, now.lane) + " " + doing +
         place + "; " +
         (by_copy ? "a copy to block " + std::to_string(block_of(before)) : lane(block_of(before), lane_of(before))) +
         " " + verb(earlier) + " them, and no barrier orders the two");
}

/// Returns the conflicting stamp, or null.
template <Space kSpace>
inline const Stamp* read_cell(Cell& cell, Stamp bytes) {
  const Stamp me = now.stamp;
  if ((cell.write & bytes) && !ordered<kSpace>(cell.write)) return &cell.write;
  if ((cell.read & ~kBytes) == me) {
    cell.read |= bytes;
  } else if (!cell.read || ordered<kSpace>(cell.read)) {
    cell.read = me | bytes;
    if (cell.other_read && ordered<kSpace>(cell.other_read)) cell.other_read = 0;
  } else {
    cell.other_read = me | bytes | ((cell.other_read & ~kBytes) == me ? cell.other_read : 0);
  }
  return nullptr;
}

template <Space kSpace>
inline const Stamp* write_cell(Cell& cell, Stamp bytes) {
  if ((cell.write & bytes) && !ordered<kSpace>(cell.write)) return &cell.write;
  if ((cell.read & bytes) && !ordered<kSpace>(cell.read)) return &cell.read;
  if ((cell.other_read & bytes) && !ordered<kSpace>(cell.other_read)) return &cell.other_read;
  const Stamp same = (cell.write & ~kBytes) == now.stamp ? cell.write : 0;
  cell.write = now.stamp | bytes | same;
  if (bytes == kBytes) cell.read = cell.other_read = 0;
  return nullptr;
}

template <Space kSpace>
inline const Stamp* touch_cell(Access access, Cell& cell, Stamp bytes) {
  return access == Access::read ? read_cell<kSpace>(cell, bytes) : write_cell<kSpace>(cell, bytes);
}

/// Bytes of the granule at `granule` that are in [address, end).
inline Stamp bytes_in(std::uintptr_t granule, std::uintptr_t address, std::uintptr_t end) {
  const Stamp from_first = address > granule ? kBytes << (address - granule) & kBytes : kBytes;
  return end < granule + kGranule ? from_first & kBytes >> (granule + kGranule - end) : from_first;
}

inline Access earlier(const Cell& cell, const Stamp* conflict) {
  return conflict == &cell.write ? Access::write : Access::read;
}

/// `cell`: of the granule that contains `address`.
template <Space kSpace, class Place>
inline void touch_cells(Access access, Cell* cell, std::uintptr_t address, std::size_t bytes, Place place) {
  const std::uintptr_t end = address + bytes;
  for (std::uintptr_t granule = address & ~std::uintptr_t{kGranule - 1}; granule < end; granule += kGranule, ++cell)
    if (const Stamp* conflict = touch_cell<kSpace>(access, *cell, bytes_in(granule, address, end)))
      report_conflict(access, *conflict, earlier(*cell, conflict), place());
}

inline void touch_single(Access access, std::uintptr_t address, std::size_t bytes) {
  // An access may cross a page, whose cells must exist too.
  static Shadow& s = shadow();
  Cell* cell = s.cells_of(address);
  if ((address ^ (address + bytes - 1)) / kPage) s.cells_of(address + bytes - 1);
  if (bytes == kGranule && address % kGranule == 0) {
    if (const Stamp* conflict = touch_cell<Space::global>(access, *cell, kBytes)) [[unlikely]]
      report_conflict(access, *conflict, earlier(*cell, conflict), describe_bytes(address, bytes));
    return;
  }
  touch_cells<Space::global>(access, cell, address, bytes, [=] { return describe_bytes(address, bytes); });
}

void touch_page(Access access, std::uintptr_t address) {
  Shadow& s = shadow();
  const std::size_t page = (address - s.begin) / kPage;
  if (s.state[page] == PageState::single) {
    touch_single(access, address, kPage);
    if (access == Access::read) return;
    s.uniform[page] = s.cells[page * kCellsOfPage];  // all cells are equal now
  } else {
    if (s.state[page] == PageState::untouched) s.uniform[page] = {};
    Cell& cell = s.uniform[page];
    if (const Stamp* conflict = touch_cell<Space::global>(access, cell, kBytes))
      report_conflict(access, *conflict, earlier(cell, conflict), describe_bytes(address, kPage));
  }
  s.state[page] = PageState::uniform;
}

/// Returns whether the bytes are in one allocation, which is cached for the next call.
inline bool allocated(std::uintptr_t address, std::size_t bytes) {
  const std::uintptr_t offset = address - now.allocation_begin;
  if (offset < now.allocation_bytes && bytes <= now.allocation_bytes - offset) return true;
  const Allocation* found = find_allocation(address);
  if (!found || bytes > found->bytes - (address - found->begin)) return false;
  now.allocation_begin = found->begin;
  now.allocation_bytes = found->bytes;
  return true;
}

[[noreturn]] void report_outside(Access access, std::uintptr_t address, std::size_t bytes) {
  const std::string who = now.block ? "kernel " + order().describe(now.operation) + ": lane " +
                                          std::to_string(now.lane) + " of block " + std::to_string(now.block->index)
                                    : order().describe(now.operation);
  const Allocation* below = find_allocation(address);
  report(who + (access == Access::read ? " reads " : " writes ") + describe_bytes(address, bytes) +
         (below ? ": past its end" : ""));
}

}  // namespace

void begin_accesses() {
  now.operation = order().current();
  now.after_all = order().after_all();
  now.stamp = make_stamp(now.operation, 0, 0, 0);
  now.block = nullptr;
}

void forget_allocation() { now.allocation_bytes = 0; }

void touch(Access access, const void* memory, std::size_t bytes) {
  if (!bytes) return;
  std::uintptr_t address = reinterpret_cast<std::uintptr_t>(memory);
  if (!allocated(address, bytes)) report_outside(access, address, bytes);
  while (bytes) {
    const std::size_t in_page = kPage - (address - heap_begin()) % kPage;
    const std::size_t piece = std::min(bytes, in_page);
    if (piece == kPage)
      touch_page(access, address);
    else
      touch_single(access, address, piece);
    address += piece;
    bytes -= piece;
  }
}

void touch_rows(Access access, const void* memory, std::size_t rows, std::size_t bytes, std::size_t pitch) {
  if (bytes == pitch) return touch(access, memory, rows * bytes);
  for (std::size_t row = 0; row < rows; ++row) touch(access, static_cast<const char*>(memory) + row * pitch, bytes);
}

namespace {

std::string describe_shared(std::size_t offset, std::size_t bytes) {
  return "bytes [" + std::to_string(offset) + ", " + std::to_string(offset + bytes) + ") of shared memory";
}

}  // namespace

void touch_shared(Access access, Cell* cells, std::size_t offset, std::size_t bytes) {
  touch_cells<Space::shared>(access, cells + offset / kGranule, offset, bytes,
                             [=] { return describe_shared(offset, bytes); });
}

void check_copy(const Cell* cells, std::size_t offset, std::size_t bytes) {
  for (const Cell* cell = cells + offset / kGranule; cell != cells + (offset + bytes) / kGranule; ++cell)
    for (const Stamp* before : {&cell->write, &cell->read, &cell->other_read}) {
      const bool ordered = operation_of(*before) != now.operation || now.block->ordered(*before, now.lane, true);
      if (*before && !ordered)
        report_conflict(Access::write, *before, before == &cell->write ? Access::write : Access::read,
                        describe_shared(offset, bytes) + " by a copy");
    }
}

void record_copy(Cell* cells, std::size_t offset, std::size_t bytes, Stamp stamp) {
  for (Cell* cell = cells + offset / kGranule; cell != cells + (offset + bytes) / kGranule; ++cell)
    *cell = {.write = stamp | kBytes};
}

namespace {

[[noreturn]] void report_granule(Access access, std::size_t offset, std::size_t bytes, Granule state) {
  report("kernel " + order().describe(now.operation) + ": lane " + std::to_string(now.lane) + " of block " +
         std::to_string(now.block->index) + (access == Access::read ? " reads " : " writes ") +
         describe_shared(offset, bytes) +
         (state == Granule::arriving ? " before an asynchronous copy to them was waited for"
                                     : ", outside of the variables that the kernel declares"));
}

/// The kernel must have declared the memory or its launch have asked for it, and the destination of a copy in flight
/// must not be accessed.
[[gnu::always_inline]] inline void check_shared(Access access, std::size_t offset, std::size_t bytes) {
  const std::uintptr_t begin = now.shared_begin + offset;
  if (begin < now.unused_begin + now.unused_bytes && begin + bytes > now.unused_begin) [[unlikely]]
    report("kernel " + order().describe(now.operation) + ": lane " + std::to_string(now.lane) +
           (access == Access::read ? " reads" : " writes") + " shared memory past the bytes that its launch asks for");
  for (std::size_t granule = offset / kGranule; granule * kGranule < offset + bytes; ++granule)
    if (now.granules[granule] != Granule::open) [[unlikely]]
      report_granule(access, offset, bytes, now.granules[granule]);
}

struct Range {
  std::uintptr_t begin, bytes;
};

/// Segments of the program that it cannot write. They have the constants of kernels.
std::vector<Range> constant_segments() {
  std::vector<Range> ranges;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* out) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          if (segment.p_type == PT_LOAD && !(segment.p_flags & PF_W))
            static_cast<std::vector<Range>*>(out)->push_back({info->dlpi_addr + segment.p_vaddr, segment.p_memsz});
        }
        return 1;  // the program itself comes first
      },
      &ranges);
  return ranges;
}

bool is_constant(std::uintptr_t address) {
  static const auto* const segments = new std::vector<Range>(constant_segments());
  return std::any_of(segments->begin(), segments->end(),
                     [=](const Range& range) { return address - range.begin < range.bytes; });
}

}  // namespace

void touch_copy(std::uintptr_t shared, std::size_t bytes, bool arrived) {
  const std::size_t offset = shared - now.shared_begin;
  if (offset >= now.shared_bytes || bytes > now.shared_bytes - offset || offset % bytes)
    report("kernel " + order().describe(now.operation) + ": an asynchronous copy to no aligned place in shared memory");
  if (!arrived) check_shared(Access::write, offset, bytes);
  for (std::size_t granule = offset / kGranule; granule * kGranule < offset + bytes; ++granule)
    now.granules[granule] = arrived ? Granule::open : Granule::arriving;
  touch_shared(Access::write, now.shared_cells, offset, bytes);
}

void touch_from_lane(Access access, std::uintptr_t address, std::size_t bytes) {
  if (address - now.stacks_begin < now.stacks_bytes) return;
  if (address - now.shared_begin < now.shared_bytes) {
    const std::size_t offset = address - now.shared_begin;
    if (bytes != kGranule || offset % kGranule) {
      check_shared(access, offset, bytes);
      return touch_shared(access, now.shared_cells, offset, bytes);
    }
    check_shared(access, offset, kGranule);  // one granule: most accesses
    Cell& cell = now.shared_cells[offset / kGranule];
    if (const Stamp* conflict = touch_cell<Space::shared>(access, cell, kBytes)) [[unlikely]]
      report_conflict(access, *conflict, earlier(cell, conflict), describe_shared(offset, bytes));
    return;
  }
  if (allocated(address, bytes))
    return bytes <= 16 ? touch_single(access, address, bytes)
                       : touch(access, reinterpret_cast<const void*>(address), bytes);
  if (access == Access::read && is_constant(address)) return;
  report_outside(access, address, bytes);
}

}  // namespace sim
