// What the ranks of a communicator share, as processes of one machine: a board in shared memory on which each says how
// far it is and puts what the others read.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sim {

/// A collective as a rank calls it: all must call the same.
struct Call {
  char name[24] = "";  // "ncclAllReduce"
  char type[12] = "";  // "bfloat16"
  std::uint64_t count = 0;
  int root = 0;
  int operation = 0;  // of a reduction: ncclRedOp_t

  bool operator==(const Call&) const = default;
};

class Board {
 public:
  static constexpr int kMaxRanks = 64;
  static constexpr std::size_t kPiece = std::size_t{1} << 18;  // bytes that a rank shows at once

  /// A new board without ranks: the path by which other processes of this machine find it while this one lives.
  static std::string create();

  /// Sits down as one of `ranks` and waits until all have, as long as it takes. `result` tells what went wrong.
  enum class Result { seated, no_board, taken };
  Board(const std::string& path, int rank, int ranks, Result& result);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// Says that this rank has `pushed` so many collectives on its streams, which run when somebody waits for them.
  void push(std::uint64_t pushed);
  /// Says that this rank is in collective `number` now, the first is 1.
  void enter(std::uint64_t number);
  /// The last collective that somebody is in and that all have pushed, where this rank has not come to it. There is
  /// none: waits for a change, and returns 0.
  std::uint64_t demanded() const;

  /// This rank's place for a Call, or for a piece, of the next meeting; and what all showed in the one before.
  Call& my_call();
  std::byte* my_piece();
  const Call& call(int rank) const;
  const std::byte* piece(int rank) const;
  /// Waits until all have come to as many meetings; what each put into its place before can be read until the next.
  /// False: aborted.
  bool meet();

  /// Ends meet(), now and later, and demanded(): from any thread.
  void abort();
  bool aborted() const { return aborted_; }
  /// This rank is done in peace.
  void leave();
  /// Whether a rank's process ended without leave(), as NCCL notices by a connection that breaks.
  bool someone_died() const;

 private:
  class Changes;
  struct Seat;
  struct Shared;

  Seat& seat(int rank) const;

  int rank_ = 0, ranks_ = 0, file_ = -1;
  Shared* shared_ = nullptr;
  std::uint64_t meetings_ = 0;
  std::atomic<bool> aborted_{false};
};

}  // namespace sim
