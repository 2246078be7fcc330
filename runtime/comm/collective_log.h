// Numbered log of a rank's collectives in call order, read by the thread that reports them to the other ranks.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace llmc {

enum class CollectiveKind : std::uint8_t {
  none,
  all_reduce,
  all_reduce_max,
  reduce_scatter,
  all_gather,
  broadcast,
  text,
  text_after_work,
  leave
};
enum class CollectiveType : std::uint8_t { none, bytes, fp32, fp64, bf16 };

/// Kind and size of a collective, which are equal on all ranks. Packed into one word.
class Collective {
 public:
  Collective() = default;
  constexpr Collective(CollectiveKind kind, CollectiveType type, std::size_t count)
      : word_(static_cast<std::uint64_t>(kind) << 56 | static_cast<std::uint64_t>(type) << 48 |
              (static_cast<std::uint64_t>(count) & kCount)) {}
  static Collective from_word(std::uint64_t word) {
    Collective collective;
    collective.word_ = word;
    return collective;
  }
  std::uint64_t word() const { return word_; }
  /// "all-reduce of 96 fp32"
  std::string text() const;
  /// Whether a wait in it may take any time: Rendezvous::Wait::unlimited.
  bool unlimited() const { return kind() == CollectiveKind::text_after_work; }
  bool operator==(const Collective&) const = default;

 private:
  CollectiveKind kind() const { return static_cast<CollectiveKind>(word_ >> 56); }

  static constexpr std::uint64_t kCount = (std::uint64_t{1} << 48) - 1;
  std::uint64_t word_ = 0;
};

/// A rank's collectives as reported in a heartbeat.
struct CollectiveReport {
  std::uint64_t count = 0;         // calls so far; the number of the last one
  std::vector<Collective> newest;  // the last of them, in call order
  std::uint64_t wait_turns = 0;    // odd: the rank is waiting for the others, for the (wait_turns + 1) / 2-th time
};

/// One thread writes, with stores only: no lock, no system call. Another reads.
class CollectiveLog {
 public:
  static constexpr std::size_t kTold = 8;  // per heartbeat

  void add(Collective collective) {
    const std::uint64_t number = count_.load(std::memory_order_relaxed) + 1;
    kept_[number % kKept].store(collective.word(), std::memory_order_relaxed);
    count_.store(number, std::memory_order_release);
    if (recording_) recording_->push_back(collective);
  }
  /// For its lifetime, added collectives are also recorded in `collectives`, which starts empty.
  class Recording {
   public:
    Recording(CollectiveLog& log, std::vector<Collective>& collectives) : log_(log) {
      collectives.clear();
      log_.recording_ = &collectives;
    }
    ~Recording() { log_.recording_ = nullptr; }
    Recording(const Recording&) = delete;
    Recording& operator=(const Recording&) = delete;

   private:
    CollectiveLog& log_;
  };
  /// Called when a wait for all ranks begins, and when it ends.
  void turn() { wait_turns_.store(wait_turns_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  CollectiveReport report() const;

 private:
  static constexpr std::size_t kKept = 64;

  std::atomic<std::uint64_t> count_{0}, wait_turns_{0};
  std::array<std::atomic<std::uint64_t>, kKept> kept_{};
  std::vector<Collective>* recording_ = nullptr;  // used by the writer only
};

/// Marks its thread as waiting for the other ranks, for its lifetime. Null log: one rank, which never waits. Must not
/// be nested.
class WaitForRanks {
 public:
  explicit WaitForRanks(CollectiveLog* log) : log_(log) {
    if (log_) log_->turn();
  }
  ~WaitForRanks() {
    if (log_) log_->turn();
  }
  WaitForRanks(const WaitForRanks&) = delete;
  WaitForRanks& operator=(const WaitForRanks&) = delete;

 private:
  CollectiveLog* const log_;
};

}  // namespace llmc
