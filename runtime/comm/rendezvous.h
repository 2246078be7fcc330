// What the processes of a run tell each other beside the step: small texts over TCP, heartbeats, farewells.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "comm/launch.h"
#include "comm/time_limit.h"

namespace llmc {

class CollectiveLog;  // comm/collective_log.h
class Mpi;            // comm/mpi_library.h

/// The ranks form a star: rank 0 listens, the others connect. From the constructor to leave() a thread sends a beat
/// each `Limits::beat`. Rank 0 watches the others, and they watch rank 0. One that is killed (its connection closes),
/// stopped or cut off (silence), or that says farewell, is lost: rank 0 tells all, and every other rank writes one line
/// to stderr that names the lost rank, its host, its last known step and what it did there, and its own rank and what
/// that was doing, and ends with _exit(170), whatever its other threads do.
///
/// Calls are collective where they say so: every rank makes them in the same order, from one thread at a time. They
/// are numbered together with the Communicator's, and heartbeats tell rank 0 the number, kind and size of the last
/// ones. Two ranks with different ones of the same number, or a wait longer than `Limits::collective`, end all ranks
/// with _exit(170): rank 0 writes a table of ranks, steps, phases and collectives.
class Rendezvous {
 public:
  struct Limits {
    std::chrono::milliseconds start{600000};       // for all ranks to come
    std::chrono::milliseconds beat{1000};          // from one heartbeat to the next
    std::chrono::milliseconds silence{30000};      // without any: the rank is lost
    std::chrono::milliseconds collective{600000};  // for one, where 100 steps are not longer
  };
  static constexpr std::size_t kMaxText = std::size_t{16} << 20;  // bytes that a rank may give to a call

  /// World size 1: opens nothing and starts no thread; every call returns at once. Otherwise rank 0 listens at the
  /// launch's host and port, or at a port that the system gives it and that MPI's broadcast brings to the others where
  /// the host is empty; the others try to connect again and again. Throws Failure(peer_lost) that names the ranks that
  /// did not come within limits.start, Failure(usage) where another program or another run is at the port.
  Rendezvous(const Launch& launch, const Limits& limits);
  /// Without leave(): like a crash; the others notice.
  ~Rendezvous();
  Rendezvous(const Rendezvous&) = delete;
  Rendezvous& operator=(const Rendezvous&) = delete;

  using Facts = std::vector<std::pair<std::string, std::string>>;  // name, value
  /// Facts that must be equal on all ranks, such as ("fingerprint", "6f0c..."). Collective. Throws Failure(usage) on
  /// every rank with the ranks and hosts that have each value.
  void agree(const Facts& facts);
  /// Which of these facts are not equal on all ranks. Collective.
  struct Difference {
    std::string text;        // each such fact, with the ranks and hosts that have each value; empty where all are equal
    std::vector<int> alone;  // ranks that have another value than more than half of them
  };
  Difference compare(const Facts& facts);
  /// Every rank's text, any bytes, in the order of ranks. Collective. Throws Failure(internal) past kMaxText.
  std::vector<std::string> all_gather(const std::string& mine);
  /// Rank `root`'s text. Collective.
  std::string broadcast(const std::string& mine, int root);
  /// Returns when all ranks have come here. Collective.
  void barrier();

  /// "rank 1 (host node-b)", "ranks 0-1, 3 (hosts node-a, node-c)"
  std::string names(const std::vector<int>& ranks) const;

  /// What this rank does now, for the messages of those who lose it: (12, "forward and backward"). `doing` must live
  /// as long as the program. No system call, no lock.
  void at(std::int64_t step, const char* doing);
  /// The same within the step, such as the name of a collective; returns what was said before.
  const char* doing(const char* now);
  /// The phase in which a rank waits for the others or for its device alone.
  static constexpr char kTraining[] = "training";
  /// How far this rank's main thread is, from any thread.
  struct Progress {
    std::uint64_t moves = 0;  // calls of at() and doing() so far
    std::int64_t step = 0;
    const char* doing = "";
    bool waits = false;  // in a collective, or in the phase kTraining
  };
  Progress progress() const;

  /// Where collectives and waits for the others are noted; null: one rank.
  CollectiveLog* collectives();

  /// Tells the others that this rank ends with an error, so that they print it and end too. The last call but the
  /// destructor's.
  void farewell(int exit_code, const std::string& why) noexcept;
  /// From any thread of one of several ranks, whatever its others do: a farewell with exit code 170, unless heartbeats
  /// know better who is lost, and the end of the process with a line as above.
  [[noreturn]] void end(const std::string& why) noexcept;
  /// The end of heartbeats in peace. Collective, and the last call; another does nothing.
  void leave();

  /// For a library's start, which waits for all ranks: ends the process where that takes longer than limits.start.
  TimeLimit start_limit(const std::string& library) const;

  /// MPI, loaded and started by the first call; it ends with leave(). Throws Failure(toolchain, usage).
  Mpi& mpi();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace llmc
