// Pages of mapped files that the system cannot give: of a file that was cut short, or of a disk with an error.
#pragma once

#include <atomic>
#include <cstddef>

namespace llmc {

/// While it exists, reading a page of the mapping that cannot be read gives zeros, where the system would end the
/// process with SIGBUS, and damaged() says so from then on, to every thread that has seen zeros. The thread must not
/// block SIGBUS. A SIGBUS for another address does what it did before.
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
