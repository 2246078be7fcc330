// The collectives of a rank in the order of its calls, numbered, for the thread that tells the other ranks of them.
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
  leave
};
enum class CollectiveType : std::uint8_t { none, bytes, fp32, fp64, bf16 };

/// A collective: what it does and its size, which are equal on all ranks. Packed into one word.
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
  bool operator==(const Collective&) const = default;

 private:
  static constexpr std::uint64_t kCount = (std::uint64_t{1} << 48) - 1;
  std::uint64_t word_ = 0;
};

/// What a rank tells of its collectives with a heartbeat.
struct CollectiveReport {
  std::uint64_t count = 0;         // so many were called; the last has this number
  std::vector<Collective> newest;  // the last of them, in the order of the calls
  std::uint64_t waits = 0;         // odd: the rank waits for the others, for the (waits + 1) / 2-th time
};

/// One thread writes: stores alone, no lock and no call of the system. Another reads.
class CollectiveLog {
 public:
  static constexpr std::size_t kTold = 8;  // with a heartbeat

  void add(Collective collective) {
    const std::uint64_t number = count_.load(std::memory_order_relaxed) + 1;
    kept_[number % kKept].store(collective.word(), std::memory_order_relaxed);
    count_.store(number, std::memory_order_release);
    if (recording_) recording_->push_back(collective);
  }
  /// While it lives, what is added is kept in `collectives` as well, which begins empty.
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
  /// A wait for all ranks begins, or ends.
  void turn() { waits_.store(waits_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

  CollectiveReport report() const;

 private:
  static constexpr std::size_t kKept = 64;

  std::atomic<std::uint64_t> count_{0}, waits_{0};
  std::array<std::atomic<std::uint64_t>, kKept> kept_{};
  std::vector<Collective>* recording_ = nullptr;  // the writer's
};

/// While it lives, its thread waits for the other ranks. A null log: one rank, which waits for nobody. They do not
/// lie within each other.
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
