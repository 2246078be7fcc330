// Thread that connects the ranks of a run until they end: sends heartbeats and strings, and detects lost ranks.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "comm/assembly.h"
#include "comm/collective_judge.h"
#include "comm/collective_log.h"
#include "comm/launcher.h"
#include "comm/rendezvous.h"

namespace llmc {

/// Implements the calls of Rendezvous.
class Watch {
 public:
  Watch(const LauncherInfo& launch, const Rendezvous::Limits& limits, Assembly assembly);
  /// Ends the thread and closes the connections.
  ~Watch();

  const std::vector<std::string>& hosts() const { return hosts_; }
  std::vector<std::string> gather(const std::string& mine, Rendezvous::Wait wait) {
    const bool limited = wait == Rendezvous::Wait::limited;
    return call(Word::gather, limited ? CollectiveKind::text : CollectiveKind::text_after_work, mine);
  }
  void leave() { call(Word::leave, CollectiveKind::leave, ""); }
  CollectiveLog& collectives() { return log_; }
  void at(std::int64_t step, const char* doing) {
    step_.store(step, std::memory_order_relaxed);
    phase_.store(doing, std::memory_order_relaxed);
    doing_.store(doing, std::memory_order_relaxed);
    moves_.fetch_add(1, std::memory_order_relaxed);
  }
  const char* doing(const char* now) {
    moves_.fetch_add(1, std::memory_order_relaxed);
    return doing_.exchange(now, std::memory_order_relaxed);
  }
  Rendezvous::Progress progress() const;
  void farewell(int exit_code, const std::string& why);
  [[noreturn]] void end(const std::string& why);

 private:
  struct Peer {
    int rank;
    Connection connection;
    bool heard = false;  // since silence was last judged
    std::chrono::steady_clock::duration silent{0};
    std::int64_t step = -1;  // -1: before the first
    std::string doing;
  };
  struct Loss {
    int rank;
    std::int64_t step;
    std::string doing, how;
    bool told = false;  // by a farewell
  };
  struct Farewell {
    int exit_code;
    std::string why;
  };
  struct Call {
    Word word;
    std::string text;
  };

  std::vector<std::string> call(Word word, CollectiveKind kind, const std::string& text);

  // Runs in the thread.
  void run();
  bool take_requests();
  void begin_call(const Call& call);
  void say_farewell(const Farewell& farewell);
  void beat();
  void wait();
  void hear();
  void read(Peer& peer);
  void take(Peer& peer, const Message& message);
  void take_text(int rank, Word word, std::uint64_t number, std::string text);
  void answer();
  void deliver(std::vector<std::string> texts);
  void judge_silence();
  RankReport own_report() const;
  void judge_collectives();
  /// Same as lose(), but for ranks that are all alive. `table`: on rank 0.
  void end_apart(const std::string& what, const std::string& table);
  void lose(const Loss& loss);
  bool main_ends_by_itself();
  Loss loss_of(const Peer& peer, std::string how) const;
  std::string describe(const Loss& loss) const;
  std::string last_line(const std::string& what) const;
  void finish(int except = -1);

  const int rank_, world_size_;
  const Rendezvous::Limits limits_;
  const std::vector<std::string> hosts_;
  std::atomic<std::int64_t> step_{-1};
  std::atomic<const char*> doing_{"start"}, phase_{"start"};
  std::atomic<std::uint64_t> moves_{0};
  CollectiveLog log_;

  // Used by the thread only.
  std::vector<Peer> peers_;
  CollectiveJudge judge_;  // on rank 0
  MonotonicTime next_beat_;
  MonotonicTime judged_;                              // silence, for the last time
  std::uint64_t number_ = 0;                          // of calls that this rank began
  std::optional<Word> word_;                          // of the call under way
  std::vector<std::optional<std::string>> gathered_;  // rank 0: the texts that have come
  bool left_ = false;
  bool over_ = false;  // the thread has no more work

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Call> request_;
  std::optional<std::vector<std::string>> result_;
  std::optional<Farewell> farewell_;
  bool stop_ = false, ended_ = false;

  Socket wake_;  // an eventfd that ends a poll
  std::thread thread_;
};

}  // namespace llmc
