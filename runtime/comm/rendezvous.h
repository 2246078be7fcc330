// Messages between the processes of a run outside of steps: short strings over TCP, heartbeats, and a goodbye at exit.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/launcher.h"
#include "comm/time_limit.h"

namespace llmc {

class CollectiveLog;  // comm/collective_log.h
class Mpi;            // comm/mpi_library.h

/// The ranks form a star: rank 0 listens, the others connect. From the constructor to leave() a thread sends a
/// heartbeat every `Limits::beat`. Rank 0 watches the others, and they watch rank 0. A rank is lost if it is killed
/// (its connection closes), stopped or cut off (silence), or says farewell. Rank 0 then tells all, and every other rank
/// writes one line to stderr and ends with _exit(170), whatever its other threads do. The line names the lost rank, its
/// host, its last known step and activity, and its own rank and activity.
///
/// Collective calls are marked as such: every rank makes them in the same order, from one thread at a time. They are
/// numbered together with the Communicator's, and heartbeats tell rank 0 the number, kind and size of the last ones. If
/// two ranks differ at the same number, or a limited wait exceeds `Limits::collective`, all ranks end with _exit(170),
/// and rank 0 writes a table of ranks, steps, phases and collectives.
class Rendezvous {
 public:
  struct Limits {
    std::chrono::milliseconds start{600000};       // for all ranks to connect
    std::chrono::milliseconds beat{1000};          // between heartbeats
    std::chrono::milliseconds silence{30000};      // without heartbeats: the rank is lost
    std::chrono::milliseconds collective{600000};  // for one, unless 100 steps take longer
  };
  static constexpr std::size_t kMaxText = std::size_t{16} << 20;  // bytes that a rank may pass to a call

  /// World size 1: opens nothing and starts no thread; every call returns at once. Otherwise rank 0 listens at the
  /// launch's host and port. If the host is empty, it listens at a port chosen by the system, which MPI broadcasts. The
  /// others connect with retries. Throws Failure(peer_lost) naming the ranks that did not connect within limits.start,
  /// Failure(usage) if another program or another run is at the port.
  Rendezvous(const LauncherInfo& launch, const Limits& limits);
  /// Without leave() it acts like a crash: the others notice.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  using Facts = std::vector<std::pair<std::string, std::string>>;  // name, value
  /// Facts that must be equal on all ranks, such as ("fingerprint", "6f0c..."). Collective. Throws Failure(usage) on
  /// every rank, with the ranks and hosts that have each value; the ranks stay connected.
  void agree(const Facts& facts);
  /// Finds facts that differ between ranks. Collective.
  struct Difference {
    std::string text;        // each such fact, with ranks and hosts by value; empty if all are equal
    std::vector<int> alone;  // ranks whose value differs from that of a majority
  };
  Difference compare(const Facts& facts);
  /// Whether Limits::collective holds for a wait. Unlimited: the others wait for work that one rank does alone and that
  /// may take long, such as sampling or a copy to the mirror. Equal on all ranks.
  enum class Wait { limited, unlimited };
  /// Every rank's text, any bytes, in rank order. Collective. Throws Failure(internal) above kMaxText.
  std::vector<std::string> all_gather(const std::string& mine, Wait wait = Wait::limited);
  /// Rank `root`'s text. Collective.
  std::string broadcast(const std::string& mine, int root, Wait wait = Wait::limited);
  /// Returns when all ranks have called it. Collective.
  void barrier(Wait wait = Wait::limited);

  /// "rank 1 (host node-b)", "ranks 0-1, 3 (hosts node-a, node-c)"
  std::string names(const std::vector<int>& ranks) const;

  /// Records this rank's activity for the messages of ranks that lose it: (12, "forward and backward"). `doing` must
  /// stay valid for the program's lifetime. No system call, no lock.
  void at(std::int64_t step, const char* doing);
  /// Same within the step, such as the name of a collective; returns the previous activity.
  const char* doing(const char* now);
  /// Phase in which a rank only waits for the others or for its device.
  static constexpr char kTraining[] = "training";
  /// Progress of this rank's main thread; callable from any thread.
  struct Progress {
    std::uint64_t moves = 0;  // calls of at() and doing() so far
    std::int64_t step = 0;
    const char* doing = "";
    bool training = false;  // in kTraining, where the host waits for its device or for other ranks
  };
  Progress progress() const;

  /// Log of collectives and waits for the others; null: one rank.
  CollectiveLog* collectives();

  /// Tells the others that this rank ends with an error, so that they print it and end too. Must be the last call
  /// before the destructor.
  void farewell(int exit_code, const std::string& why) noexcept;
  /// Says farewell with exit code 170, unless heartbeats already know the lost rank, and ends the process with a line
  /// as above. Callable from any thread of one of several ranks, whatever the others do.
  [[noreturn]] void end(const std::string& why) noexcept;
  /// Ends heartbeats regularly. Collective, and the last call; further calls do nothing.
  void leave();

  /// For a library's start-up that waits for all ranks: ends the process if it takes longer than limits.start.
  TimeLimit start_limit(const std::string& library) const;

  /// MPI, loaded and started by the first call, and finalized by leave(). Throws Failure(toolchain, usage).
  Mpi& mpi();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
