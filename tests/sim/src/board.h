// Shared memory of a communicator's ranks, which are processes on one machine: each rank publishes its progress and
// data for the others.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sim {

/// A collective as called by a rank: all must make the same call.
struct Call {
  char name[24] = "";  // "ncclAllReduce"
  char type[12] = "";  // "bfloat16"
  std::uint64_t count = 0;
  int root = 0;
  int operation = 0;  // of a reduction: ncclRedOp_t
  int captured = 0;   // number of the captured call that a graph repeats; 0: not from a graph

  bool operator==(const Call&) const = default;
};

class Board {
 public:
  static constexpr int kMaxRanks = 64;
  static constexpr std::size_t kPiece = std::size_t{1} << 18;  // bytes that a rank publishes at once

  /// Creates a board without ranks; returns the path by which other processes find it while this one lives.
  static std::string create();

  /// Joins as one of `ranks` and waits until all have, without a limit. `result` tells the error.
  enum class Result { seated, no_board, taken };
  Board(const std::string& path, int rank, int ranks, Result& result);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }

  /// Publishes the number of collectives this rank has queued on its streams; they run when a rank waits for them.
  void push(std::uint64_t pushed);
  /// Publishes that this rank is now in collective `number`, counting from 1.
  void enter(std::uint64_t number);
  /// The last collective that a rank is in, that all have queued, and that this rank has not reached. If there is none,
  /// waits for a change and returns 0.
  std::uint64_t demanded() const;

  /// This rank's slot for a Call, or for data, of the next meeting; and those of all ranks in the previous one.
  Call& my_call();
  std::byte* my_piece();
  const Call& call(int rank) const;
  const std::byte* piece(int rank) const;
  /// Waits until all have reached the same number of meetings; their slots can then be read until the next one. False:
  /// aborted.
  bool meet();

  /// Ends current and later calls of meet() and demanded(); callable from any thread.
  void abort();
  bool aborted() const { return aborted_; }
  /// Records that this rank has finished regularly.
  void leave();
  /// Returns whether a rank's process exited without leave(), as NCCL detects by a broken connection.
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
