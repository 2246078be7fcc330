#include "collective.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <type_traits>

#include "device/math.h"
#include "report.h"
#include "shadow.h"

namespace sim {
namespace {

struct KindText {
  const char* call;
  const char* name;
};
constexpr KindText kKinds[] = {{"ncclAllReduce", "all-reduce"},
                               {"ncclReduceScatter", "reduce-scatter"},
                               {"ncclAllGather", "all-gather"},
                               {"ncclBroadcast", "broadcast"}};

struct TypeText {
  const char* name;
  std::size_t bytes;
};
constexpr TypeText kTypes[] = {{"uint8", 1}, {"bfloat16", 2}, {"float32", 4}, {"float64", 8}};

std::size_t bytes_of(ncclDataType_t type) { return kTypes[type].bytes; }

std::string describe(const Call& call) {
  std::string text = std::string(call.name) + " of " + std::to_string(call.count) + " " + call.type;
  if (call.operation == ncclMax) text += " for the largest";
  if (call.root >= 0) text += " from rank " + std::to_string(call.root);
  return text + (call.captured ? ", captured as number " + std::to_string(call.captured) : "");
}

void check_calls(const Board& board) {
  const Call& mine = board.call(board.rank());
  for (int rank = 0; rank < board.ranks(); ++rank) {
    const Call& other = board.call(rank);
    if (other == mine) continue;
    if (std::getenv("LLMC_SIM_NCCL_HANGS")) {  // like NCCL's kernels, which report nothing
      while (!board.aborted()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    report("ranks of a communicator make different calls: rank " + std::to_string(board.rank()) + " " + describe(mine) +
           ", rank " + std::to_string(rank) + " " + describe(other));
  }
}

/// Combines `from` into *to by the operation.
template <class T>
void combine(ncclRedOp_t operation, T& to, T from) {
  if constexpr (std::is_same_v<T, llmc::bf16>) {
    const float a = llmc::to_float(to), b = llmc::to_float(from);
    to = llmc::from_float<T>(operation == ncclMax ? std::max(a, b) : a + b);
  } else {
    to = operation == ncclMax ? std::max(to, from) : to + from;
  }
}

template <class T>
void reduce(ncclRedOp_t operation, std::byte* sum, const std::byte* value, std::size_t count) {
  T* to = reinterpret_cast<T*>(sum);
  const T* from = reinterpret_cast<const T*>(value);
  for (std::size_t i = 0; i < count; ++i) combine(operation, to[i], from[i]);
}

void reduce(const Collective& c, std::byte* sum, const std::byte* value, std::size_t bytes) {
  switch (c.type) {
    case ncclBfloat16: return reduce<llmc::bf16>(c.operation, sum, value, bytes / 2);
    case ncclFloat32: return reduce<float>(c.operation, sum, value, bytes / 4);
    case ncclFloat64: return reduce<double>(c.operation, sum, value, bytes / 8);
    case ncclUint8: report("a sum of bytes, which the simulated NCCL does not know");
  }
}

/// Publishes `bytes` of each rank's `mine` (null: this rank publishes nothing) in parts: take(offset, size) reads the
/// ranks' data on the board. False: aborted.
bool show(Board& board, const std::byte* mine, std::size_t bytes,
          const std::function<void(std::size_t, std::size_t)>& take) {
  for (std::size_t offset = 0; offset < bytes; offset += Board::kPiece) {
    const std::size_t size = std::min(Board::kPiece, bytes - offset);
    if (mine) std::memcpy(board.my_piece(), mine + offset, size);
    if (!board.meet()) return false;
    take(offset, size);
  }
  return true;
}

/// Sums or maxima of the ranks' data, into `to`.
void reduce_to(Board& board, const Collective& c, std::byte* to, std::size_t size) {
  std::memcpy(to, board.piece(0), size);
  for (int rank = 1; rank < board.ranks(); ++rank) reduce(c, to, board.piece(rank), size);
}

}  // namespace

const char* Collective::name() const { return kKinds[static_cast<int>(kind)].name; }

Call Collective::call() const {
  Call call;
  std::strcpy(call.name, kKinds[static_cast<int>(kind)].call);
  std::strcpy(call.type, kTypes[type].name);
  call.count = count;
  call.root = kind == Kind::broadcast ? root : -1;
  call.operation = operation;
  call.captured = captured;
  return call;
}

std::size_t Collective::sent_bytes(int ranks) const {
  return count * bytes_of(type) * (kind == Kind::reduce_scatter ? static_cast<std::size_t>(ranks) : 1);
}

std::size_t Collective::received_bytes(int ranks) const {
  return count * bytes_of(type) * (kind == Kind::all_gather ? static_cast<std::size_t>(ranks) : 1);
}

bool placed_well(const Collective& c, int rank, int ranks) {
  const auto* send = static_cast<const std::byte*>(c.send);
  const auto* receive = static_cast<const std::byte*>(c.receive);
  const std::size_t share = static_cast<std::size_t>(rank) * c.count * bytes_of(c.type);
  switch (c.kind) {
    case Kind::reduce_scatter:
      if (receive == send + share) return true;
      break;
    case Kind::all_gather:
      if (send == receive + share) return true;
      break;
    default:
      if (send == receive) return true;
  }
  return send + c.sent_bytes(ranks) <= receive || receive + c.received_bytes(ranks) <= send;
}

void run_collective(const Collective& c, std::uint64_t number, Board& board) {
  const int ranks = board.ranks();
  const std::size_t bytes = c.count * bytes_of(c.type);
  const bool sends = c.kind != Kind::broadcast || c.root == board.rank();
  if (sends) touch(Access::read, c.send, c.sent_bytes(ranks));
  touch(Access::write, c.receive, c.received_bytes(ranks));
  board.enter(number);  // a race is reported before the other ranks are involved
  board.my_call() = c.call();
  if (!board.meet()) return;
  check_calls(board);

  const auto* send = static_cast<const std::byte*>(c.send);
  auto* receive = static_cast<std::byte*>(c.receive);
  switch (c.kind) {
    case Kind::all_reduce:
      show(board, send, bytes,
           [&](std::size_t offset, std::size_t size) { reduce_to(board, c, receive + offset, size); });
      return;
    case Kind::reduce_scatter:
      for (int owner = 0; owner < ranks; ++owner) {
        const bool more = show(board, send + static_cast<std::size_t>(owner) * bytes, bytes,
                               [&](std::size_t offset, std::size_t size) {
                                 if (owner == board.rank()) reduce_to(board, c, receive + offset, size);
                               });
        if (!more) return;
      }
      return;
    case Kind::all_gather:
      show(board, send, bytes, [&](std::size_t offset, std::size_t size) {
        for (int rank = 0; rank < ranks; ++rank)
          std::memcpy(receive + static_cast<std::size_t>(rank) * bytes + offset, board.piece(rank), size);
      });
      return;
    case Kind::broadcast:
      show(board, sends ? send : nullptr, bytes,
           [&](std::size_t offset, std::size_t size) { std::memcpy(receive + offset, board.piece(c.root), size); });
  }
}

}  // namespace sim
