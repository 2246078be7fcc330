// Memory of a number for each column of a row, on the stack or, for wide rows, on the heap.
#pragma once

extern "C" void* aligned_alloc(unsigned long alignment, unsigned long bytes) noexcept;
extern "C" void free(void* memory) noexcept;

namespace llmc {

/// A kernel has up to four rows of columns, and a thread's stack as little as 2 MiB (with ulimit -s unlimited).
constexpr unsigned long kMostOnStack = 256ul << 10;

template <class T, int kCount, bool kOnHeap = (sizeof(T) * static_cast<unsigned long>(kCount) > kMostOnStack)>
struct ColumnMemory {
  alignas(64) T data[kCount];
};

/// Ends the process if the system has no memory: a kernel cannot continue.
template <class T, int kCount>
struct ColumnMemory<T, kCount, true> {
  T* data;

  ColumnMemory() : data(static_cast<T*>(aligned_alloc(64, (sizeof(T) * kCount + 63) / 64 * 64))) {
    if (!data) __builtin_trap();
  }
  ColumnMemory(ColumnMemory&& other) noexcept : data(other.data) { other.data = nullptr; }
  ColumnMemory& operator=(const ColumnMemory&) = delete;
  ~ColumnMemory() { free(data); }
};

}  // namespace llmc
