// Collectives between processes on CPUs, by Open MPI, which only transfers messages. Sums are computed here in rank
// order, each element by one rank, so that all ranks get the same bits.
#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "comm/collective_log.h"
#include "comm/collectives.h"
#include "comm/launcher.h"
#include "comm/mpi_library.h"
#include "comm/rendezvous.h"
#include "comm/spawn.h"
#include "device/cpu/stream.h"
#include "device/math.h"

namespace llmc {
namespace {

// Bytes of received data not yet added, double-buffered: fits into the caches of one core.
constexpr std::size_t kScratch = std::size_t{1} << 20;
constexpr std::size_t kSmallest = 4096;  // of a message, for any number of ranks
// Up to this size every rank sends everything to all others, which takes one wait instead of two.
constexpr std::size_t kSmall = 16384;
// Elements that stay in the L1 cache while the ranks are added.
constexpr std::size_t kRow = 2048;

/// Type in which values of T are added.
template <typename T>
using Sum = std::conditional_t<std::is_same_v<T, double>, double, float>;

template <typename T>
Sum<T> widen(T value) {
  if constexpr (std::is_same_v<T, double>)
    return value;
  else
    return to_float(value);
}

template <typename T>
T narrow(Sum<T> sum) {
  if constexpr (std::is_same_v<T, double>)
    return sum;
  else
    return from_float<T>(sum);
}

/// out[i] = ranks[0][i] + ranks[1][i] + ...; `out` may be one of them. The sum of bf16 is rounded once.
template <typename T>
void add_rows(std::span<const T* const> ranks, T* out, std::size_t count) {
#pragma omp parallel for schedule(static) if (count > 16 * kRow)
  for (std::size_t first = 0; first < count; first += kRow) {
    const std::size_t n = std::min(kRow, count - first);
    Sum<T> sums[kRow];
    for (std::size_t i = 0; i < n; ++i) sums[i] = widen(ranks[0][first + i]);
    for (const T* rank : ranks.subspan(1)) {
      const T* values = rank + first;
#pragma omp simd
      for (std::size_t i = 0; i < n; ++i) sums[i] += widen(values[i]);
    }
    for (std::size_t i = 0; i < n; ++i) out[first + i] = narrow<T>(sums[i]);
  }
}

}  // namespace

struct Communicator::Impl {
  Impl(const LauncherInfo& launch, Rendezvous& met)
      : rank(launch.rank),
        world_size(launch.world_size),
        rendezvous(met),
        mpi(met.mpi()),
        description(std::to_string(world_size) + " ranks, " + mpi.version()) {}

  /// Records this rank's current collective, for the messages of ranks that wait for it in vain.
  class Within {
   public:
    Within(Impl& impl, const char* name, const Collective& collective)
        : rendezvous_(impl.rendezvous), before_(rendezvous_.doing(name)), waits_(numbered(impl, collective)) {}
    ~Within() { rendezvous_.doing(before_); }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;

   private:
    static CollectiveLog* numbered(Impl& impl, const Collective& collective) {
      impl.rendezvous.collectives()->add(collective);
      return impl.rendezvous.collectives();
    }

    Rendezvous& rendezvous_;
    const char* const before_;
    const WaitForRanks waits_;
  };

  /// Elements that a rank sums: an equal part; the last ranks get less or none.
  struct Part {
    std::size_t begin, count;
  };
  static Part part(std::size_t count, std::size_t share, int rank) {
    const std::size_t begin = std::min(count, static_cast<std::size_t>(rank) * share);
    return {begin, std::min(share, count - begin)};
  }

  /// Partner of this rank in turn 1, 2, ... world_size - 1: all pairs exchange at the same time.
  int to(int turn) const { return (rank + turn) % world_size; }
  int from(int turn) const { return (rank - turn + world_size) % world_size; }

  /// Leaves the sums in this rank's part.
  template <typename T>
  void reduce_scatter(T* data, std::size_t count, std::size_t share) {
    const std::size_t others = static_cast<std::size_t>(world_size - 1);
    const std::size_t block = std::max(kScratch / 2 / others, kSmallest) / sizeof(T);
    scratch.resize(2 * others * block * sizeof(T));
    const Part mine = part(count, share, rank);
    const std::size_t blocks = (std::min(share, count) + block - 1) / block;

    // Block b of every part is transferred while block b - 1 is added.
    const auto received = [&](std::size_t b, int turn) {
      return reinterpret_cast<T*>(scratch.data()) + ((b % 2) * others + static_cast<std::size_t>(turn - 1)) * block;
    };
    const auto size = [&](const Part& p, std::size_t b) {
      return std::min(block, p.count - std::min(p.count, b * block));
    };
    const auto exchange = [&](std::size_t b) {
      for (int turn = 1; turn < world_size; ++turn) {
        const Part theirs = part(count, share, to(turn));
        mpi.receive(requests[b % 2], received(b, turn), size(mine, b) * sizeof(T), from(turn));
        mpi.send(requests[b % 2], data + theirs.begin + b * block, size(theirs, b) * sizeof(T), to(turn));
      }
    };
    if (blocks > 0) exchange(0);
    for (std::size_t b = 0; b < blocks; ++b) {
      if (b + 1 < blocks) exchange(b + 1);
      mpi.wait(requests[b % 2]);
      T* sums = data + mine.begin + b * block;
      std::vector<const T*> ranks(static_cast<std::size_t>(world_size));
      ranks[static_cast<std::size_t>(rank)] = sums;
      for (int turn = 1; turn < world_size; ++turn) ranks[static_cast<std::size_t>(from(turn))] = received(b, turn);
      add_rows<T>(ranks, sums, size(mine, b));
    }
  }

  /// Sends every rank's part to all. `mine`: this rank's, in place or elsewhere.
  void gather(const std::byte* mine, std::byte* data, std::size_t bytes, std::size_t share) {
    const Part own = part(bytes, share, rank);
    for (int turn = 1; turn < world_size; ++turn) {
      const Part theirs = part(bytes, share, from(turn));
      mpi.receive(requests[0], data + theirs.begin, theirs.count, from(turn));
      mpi.send(requests[0], mine, own.count, to(turn));
    }
    if (mine != data + own.begin && own.count > 0) std::memcpy(data + own.begin, mine, own.count);
    mpi.wait(requests[0]);
  }
  void gather(std::byte* data, std::size_t bytes, std::size_t share) {
    gather(data + part(bytes, share, rank).begin, data, bytes, share);
  }

  template <typename T>
  void all_reduce(T* values, std::size_t count) {
    const std::size_t bytes = count * sizeof(T);
    const std::size_t ranks = static_cast<std::size_t>(world_size);
    if (bytes > kSmall) {
      const std::size_t line = 64 / sizeof(T);  // elements; parts begin at a possible cache line
      const std::size_t share = (count + ranks * line - 1) / (ranks * line) * line;
      reduce_scatter(values, count, share);
      gather(reinterpret_cast<std::byte*>(values), bytes, share * sizeof(T));
      return;
    }
    const std::vector<const T*> sources = all_of(values, count);
    if (count > 0) add_rows<T>(sources, values, count);
  }

  /// Values of every rank; valid until scratch is reused.
  template <typename T>
  std::vector<const T*> all_of(const T* values, std::size_t count) {
    const std::size_t bytes = count * sizeof(T), ranks = static_cast<std::size_t>(world_size);
    scratch.resize(std::max(scratch.size(), ranks * bytes));
    if (count > 0) std::memcpy(scratch.data() + static_cast<std::size_t>(rank) * bytes, values, bytes);
    gather(scratch.data(), ranks * bytes, bytes);
    std::vector<const T*> sources(ranks);
    for (std::size_t r = 0; r < ranks; ++r) sources[r] = reinterpret_cast<const T*>(scratch.data() + r * bytes);
    return sources;
  }

  template <typename T>
  void all_reduce_sum(T* values, std::size_t count, CollectiveType type, Stream& stream) {
    const Launched launched(stream.listener, stream, LaunchKind::collective);
    const Within within(*this, "all-reduce", {CollectiveKind::all_reduce, type, count});
    all_reduce(values, count);
  }

  template <typename T>
  void reduce_scatter_sum(T* data, std::size_t share, CollectiveType type, Stream& stream) {
    const Launched launched(stream.listener, stream, LaunchKind::collective);
    const Within within(*this, "reduce-scatter", {CollectiveKind::reduce_scatter, type, share});
    reduce_scatter(data, share * static_cast<std::size_t>(world_size), share);
  }

  const int rank, world_size;
  Rendezvous& rendezvous;
  Mpi& mpi;
  const std::string description;
  std::vector<std::byte> scratch;
  Mpi::Requests requests[2];
};

Communicator::Communicator(Device&, const LauncherInfo& launch, Rendezvous& rendezvous, const CollectiveNeeds&)
    : impl_(launch.world_size > 1 ? new Impl(launch, rendezvous) : nullptr) {}
Communicator::~Communicator() = default;

int Communicator::rank() const { return impl_ ? impl_->rank : 0; }
int Communicator::world_size() const { return impl_ ? impl_->world_size : 1; }

const char* Communicator::description() const { return impl_ ? impl_->description.c_str() : "1 rank"; }

CollectiveLog* Communicator::collectives() const { return impl_ ? impl_->rendezvous.collectives() : nullptr; }

std::byte* Communicator::allocate(Device& device, std::size_t bytes) { return device.allocate(bytes); }

Stream& Communicator::beside(Stream& stream) { return stream; }
void Communicator::mark(int) {}
void Communicator::wait(int, Stream&) {}
void Communicator::join(Stream&) {}

void Communicator::all_reduce_sum(float* values, std::size_t count, Stream& stream) {
  if (impl_) impl_->all_reduce_sum(values, count, CollectiveType::fp32, stream);
}

void Communicator::all_reduce_sum(double* values, std::size_t count, Stream& stream) {
  if (impl_) impl_->all_reduce_sum(values, count, CollectiveType::fp64, stream);
}

void Communicator::all_reduce_sum(bf16* values, std::size_t count, Stream& stream) {
  if (impl_) impl_->all_reduce_sum(values, count, CollectiveType::bf16, stream);
}

void Communicator::all_reduce_max(double* values, std::size_t count, Stream& stream) {
  if (!impl_) return;
  const Launched launched(stream.listener, stream, LaunchKind::collective);
  const Impl::Within within(*impl_, "all-reduce", {CollectiveKind::all_reduce_max, CollectiveType::fp64, count});
  for (const double* rank : impl_->all_of(values, count))
    for (std::size_t i = 0; i < count; ++i) values[i] = std::max(values[i], rank[i]);
}

void Communicator::reduce_scatter_sum(float* data, std::size_t share, Stream& stream) {
  if (impl_) impl_->reduce_scatter_sum(data, share, CollectiveType::fp32, stream);
}

void Communicator::reduce_scatter_sum(bf16* data, std::size_t share, Stream& stream) {
  if (impl_) impl_->reduce_scatter_sum(data, share, CollectiveType::bf16, stream);
}

void Communicator::all_gather(const void* mine, void* data, std::size_t share, Stream& stream) {
  if (!impl_) return;
  const Launched launched(stream.listener, stream, LaunchKind::collective);
  const Impl::Within within(*impl_, "all-gather", {CollectiveKind::all_gather, CollectiveType::bytes, share});
  impl_->gather(static_cast<const std::byte*>(mine), static_cast<std::byte*>(data),
                share * static_cast<std::size_t>(impl_->world_size), share);
}

void Communicator::broadcast(void* data, std::size_t bytes, int root, Stream& stream) {
  if (!impl_) return;
  const Launched launched(stream.listener, stream, LaunchKind::collective);
  const Impl::Within within(*impl_, "broadcast", {CollectiveKind::broadcast, CollectiveType::bytes, bytes});
  impl_->mpi.broadcast(data, bytes, root);
}

Starter rank_starter() { return Starter::mpirun; }

}  // namespace llmc
