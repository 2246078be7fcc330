#include "data/unreadable_pages.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

namespace llmc {

/// Element of a list that only grows, so that a signal handler may traverse it at any time. Elements of closed files
/// are reused.
struct UnreadablePages::Mapping {
  std::atomic<std::uintptr_t> begin{UINTPTR_MAX}, end{0};  // initially: no mapping
  std::atomic<bool> damaged{false};
  Mapping* next = nullptr;
};

namespace {

using Mapping = UnreadablePages::Mapping;

std::atomic<Mapping*> first{nullptr};
std::mutex changes;
std::vector<Mapping*>& unused() {
  static auto* list = new std::vector<Mapping*>();  // outlives every file
  return *list;
}
struct sigaction before{};

/// Maps zeros over the rest of the file. Uses only async-signal-safe calls.
void give_zeros(int signal, siginfo_t* about, void*) {
  const auto address = reinterpret_cast<std::uintptr_t>(about->si_addr);
  for (Mapping* mapping = first.load(); mapping; mapping = mapping->next) {
    const std::uintptr_t begin = mapping->begin.load(), end = mapping->end.load();
    if (address < begin || address >= end) continue;
    mapping->damaged.store(true);  // before any thread can read a zero
    const std::uintptr_t page = address & ~std::uintptr_t{4095};
    if (mmap(reinterpret_cast<void*>(page), end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
        MAP_FAILED)
      return;
  }
  sigaction(signal, &before, nullptr);  // the access is repeated and fails as without this handler
}

void handle() {
  static const bool done = [] {
    struct sigaction action{};
    action.sa_sigaction = give_zeros;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, &before);
    return true;
  }();
  static_cast<void>(done);
}

}  // namespace

UnreadablePages::UnreadablePages(void* begin, std::size_t size) {
  handle();
  const std::lock_guard lock(changes);
  if (unused().empty()) {
    mapping_ = new Mapping();
    mapping_->next = first.load();
    first.store(mapping_);
  } else {
    mapping_ = unused().back();
    unused().pop_back();
  }
  mapping_->damaged.store(false);
  mapping_->end.store(reinterpret_cast<std::uintptr_t>(begin) + size);
  mapping_->begin.store(reinterpret_cast<std::uintptr_t>(begin));
}

UnreadablePages::~UnreadablePages() {
  if (!mapping_) return;
  const std::lock_guard lock(changes);
  mapping_->begin.store(UINTPTR_MAX);
  mapping_->end.store(0);
  unused().push_back(mapping_);
}

UnreadablePages::UnreadablePages(UnreadablePages&& other) noexcept : mapping_(std::exchange(other.mapping_, nullptr)) {}

UnreadablePages& UnreadablePages::operator=(UnreadablePages&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  return *this;
}

bool UnreadablePages::damaged() const { return mapping_ && mapping_->damaged.load(); }

}  // namespace llmc
