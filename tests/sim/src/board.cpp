#include "board.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>

#include "report.h"

namespace sim {

/// A futex: a waiting thread checks its condition, and sleeps unless something has changed since.
class Board::Changes {
 public:
  std::uint32_t seen() const { return count_; }
  void add() {
    ++count_;
    syscall(SYS_futex, &count_, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  }
  void wait(std::uint32_t seen) const { syscall(SYS_futex, &count_, FUTEX_WAIT, seen, nullptr, nullptr, 0); }

 private:
  std::atomic<std::uint32_t> count_;
};

/// Two buffers for a rank's data: it fills one while the others still read the other.
struct Board::Seat {
  std::atomic<bool> taken, left;
  std::atomic<std::uint64_t> pushed, entered, meetings;
  Call calls[2];
  alignas(64) std::byte pieces[2][kPiece];
};

struct Board::Shared {
  Changes meetings, demands;
  std::atomic<std::uint32_t> seated;
  Seat seats[kMaxRanks];  // untouched seats take no memory
};

std::string Board::create() {
  // Has no name in any folder, so nothing is left behind, however the processes end.
  const int file = memfd_create("nccl", MFD_CLOEXEC);
  if (file < 0 || ftruncate(file, sizeof(Shared)) != 0) report("no shared memory for the ranks of a communicator");
  return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file);
}

Board::Board(const std::string& path, int rank, int ranks, Result& result) : rank_(rank), ranks_(ranks) {
  result = Result::no_board;
  file_ = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file_ < 0) return;
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
  if (memory == MAP_FAILED) return;
  shared_ = static_cast<Shared*>(memory);
  result = Result::taken;
  if (seat(rank).taken.exchange(true)) return;
  // Held for the lifetime of this process, also by a zombie.
  struct flock lock = {};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  lock.l_start = rank;
  lock.l_len = 1;
  if (fcntl(file_, F_OFD_SETLK, &lock) != 0) report("a rank of a communicator cannot be locked");
  ++shared_->seated;
  shared_->meetings.add();
  while (true) {
    const std::uint32_t seen = shared_->meetings.seen();
    if (shared_->seated == static_cast<std::uint32_t>(ranks)) break;
    shared_->meetings.wait(seen);
  }
  result = Result::seated;
}

Board::~Board() {
  if (shared_) munmap(shared_, sizeof(Shared));
  if (file_ >= 0) close(file_);
}

Board::Seat& Board::seat(int rank) const { return shared_->seats[rank]; }

void Board::push(std::uint64_t pushed) {
  seat(rank_).pushed = pushed;
  shared_->demands.add();
}

void Board::enter(std::uint64_t number) {
  seat(rank_).entered = number;
  shared_->demands.add();
}

std::uint64_t Board::demanded() const {
  const std::uint32_t seen = shared_->demands.seen();
  if (aborted_) return 0;
  std::uint64_t entered = 0, pushed = UINT64_MAX;
  for (int rank = 0; rank < ranks_; ++rank) {
    entered = std::max<std::uint64_t>(entered, seat(rank).entered);
    pushed = std::min<std::uint64_t>(pushed, seat(rank).pushed);
  }
  const std::uint64_t wanted = std::min(entered, pushed);
  if (wanted > seat(rank_).entered) return wanted;
  shared_->demands.wait(seen);
  return 0;
}

Call& Board::my_call() { return seat(rank_).calls[meetings_ % 2]; }
std::byte* Board::my_piece() { return seat(rank_).pieces[meetings_ % 2]; }
const Call& Board::call(int rank) const { return seat(rank).calls[(meetings_ - 1) % 2]; }
const std::byte* Board::piece(int rank) const { return seat(rank).pieces[(meetings_ - 1) % 2]; }

bool Board::meet() {
  seat(rank_).meetings = ++meetings_;
  shared_->meetings.add();
  for (int rank = 0; rank < ranks_; ++rank) {
    while (true) {
      const std::uint32_t seen = shared_->meetings.seen();
      if (aborted_) return false;
      if (seat(rank).meetings >= meetings_) break;
      shared_->meetings.wait(seen);
    }
  }
  return true;
}

void Board::abort() {
  aborted_ = true;
  shared_->meetings.add();
  shared_->demands.add();
}

void Board::leave() { seat(rank_).left = true; }

bool Board::someone_died() const {
  for (int rank = 0; rank < ranks_; ++rank) {
    if (rank == rank_ || seat(rank).left) continue;
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    if (fcntl(file_, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK) return true;
  }
  return false;
}

}  // namespace sim
