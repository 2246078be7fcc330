// Handles pages of mapped files that cannot be read because the file was truncated or its disk fails.
#pragma once

#include <atomic>
#include <cstddef>

namespace llmc {

/// For its lifetime, unreadable pages of the mapping read as zeros instead of ending the process with SIGBUS. damaged()
/// is then true for every thread that has read such zeros. Reading threads must not block SIGBUS. A SIGBUS for another
/// address is handled as before.
class UnreadablePages {
 public:
  UnreadablePages() = default;
  UnreadablePages(void* begin, std::size_t size);
  ~UnreadablePages();
  UnreadablePages(UnreadablePages&& other) noexcept;
  UnreadablePages& operator=(UnreadablePages&& other) noexcept;

  bool damaged() const;

  struct Mapping;

 private:
  Mapping* mapping_ = nullptr;
};

}  // namespace llmc
