#include "comm/watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "comm/time_limit.h"
#include "error.h"
#include "host/blocked_signals.h"
#include "text/printable.h"

namespace llmc {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kLastWords{1000};  // for the last messages to arrive
// Ranks that fail for the same reason do so at about the same time, and each reports its own error. Also, a rank that
// said farewell or was killed exits before the others, so that launchers, which report the first exit, report its code.
constexpr std::chrono::milliseconds kOwnEnd{500};
constexpr std::size_t kLongestWhy = 2000;

std::string one_line(const std::string& text) {
  return printable(text.substr(0, utf8_floor(text, kLongestWhy))) + (text.size() > kLongestWhy ? " ..." : "");
}

/// "at step 12 in forward and backward"
std::string place(std::int64_t step, const std::string& doing) {
  return step < 0 ? "in " + doing : fmt::format("at step {} in {}", step, doing);
}

}  // namespace

Watch::Watch(const LauncherInfo& launch, const Rendezvous::Limits& limits, Assembly assembly)
    : rank_(launch.rank),
      world_size_(launch.world_size),
      limits_(limits),
      hosts_(std::move(assembly.hosts)),
      judge_(launch.world_size, limits.collective),
      next_beat_(steady_clock::now()),
      judged_(next_beat_),
      gathered_(static_cast<std::size_t>(launch.world_size)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (wake_.fd() < 0) throw Failure(Exit::toolchain, fmt::format("eventfd: {}", std::strerror(errno)));
  const std::size_t one = Rendezvous::kMaxText + 64;
  for (Connection& connection : assembly.connections) {
    connection.set_limit(rank_ == 0 ? one : one * static_cast<std::size_t>(world_size_));
    const int rank = rank_ == 0 ? static_cast<int>(peers_.size()) + 1 : 0;
    peers_.push_back({.rank = rank, .connection = std::move(connection), .doing = "start"});
  }
  const BlockedSignals blocked;
  thread_ = std::thread([this] { run(); });
}

Watch::~Watch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  eventfd_write(wake_.fd(), 1);
  thread_.join();
}

std::vector<std::string> Watch::call(Word word, CollectiveKind kind, const std::string& text) {
  log_.add({kind, CollectiveType::none, 0});
  const WaitForRanks waits(&log_);
  std::unique_lock lock(mutex_);
  if (ended_) throw Failure(Exit::internal, "a call to the other ranks after the end of the rendezvous");
  request_ = Call{word, text};
  eventfd_write(wake_.fd(), 1);
  changed_.wait(lock, [&] { return result_.has_value(); });
  std::vector<std::string> result = std::move(*result_);
  result_.reset();
  return result;
}

Rendezvous::Progress Watch::progress() const {
  const bool training = phase_.load(std::memory_order_relaxed) == Rendezvous::kTraining;
  return {moves_.load(std::memory_order_relaxed), step_, doing_.load(std::memory_order_relaxed), training};
}

void Watch::farewell(int exit_code, const std::string& why) {
  std::unique_lock lock(mutex_);
  farewell_ = Farewell{exit_code, one_line(why)};
  eventfd_write(wake_.fd(), 1);
  changed_.notify_all();
  changed_.wait(lock, [&] { return ended_; });
}

void Watch::end(const std::string& why) {
  farewell(static_cast<int>(Exit::peer_lost), why);
  write_error_line(last_line(one_line(why)));
  _exit(static_cast<int>(Exit::peer_lost));
}

void Watch::run() {
  while (!over_ && take_requests()) {
    if (steady_clock::now() >= next_beat_) beat();
    wait();
    hear();
    judge_silence();
  }
  const std::lock_guard lock(mutex_);
  ended_ = true;
  changed_.notify_all();
}

/// Returns false at the end.
bool Watch::take_requests() {
  std::unique_lock lock(mutex_);
  if (stop_) return false;
  if (farewell_) {
    const Farewell farewell = *farewell_;
    lock.unlock();
    say_farewell(farewell);
    return false;
  }
  if (!request_) return true;
  const Call call = std::move(*request_);
  request_.reset();
  lock.unlock();
  begin_call(call);
  return !over_;
}

void Watch::begin_call(const Call& call) {
  ++number_;
  word_ = call.word;
  if (rank_ != 0) beat();  // with this rank's number of the call, for answer()
  if (rank_ == 0)
    take_text(0, call.word, number_, call.text);
  else
    peers_[0].connection.send(call.word, BodyWriter().number(number_).text(call.text).body());
}

void Watch::say_farewell(const Farewell& farewell) {
  // A rank that ends because another is lost knows less than the heartbeats do, also about ranks in different
  // collectives. An error of its own is the cause, whatever the others are doing.
  if (farewell.exit_code == static_cast<int>(Exit::peer_lost)) {
    beat();
    if (over_) return;
    const auto until = steady_clock::now() + 2 * limits_.beat;
    while (steady_clock::now() < until && !over_) {
      if (steady_clock::now() >= next_beat_) beat();
      wait();
      hear();  // ends the process when it learns the lost rank
    }
    if (over_) return;
  }
  const std::string how = fmt::format("it ended with exit code {}: {}", farewell.exit_code, farewell.why);
  const Loss mine{rank_, step_, doing_.load(), how, true};
  for (Peer& peer : peers_) {
    if (rank_ == 0)
      peer.connection.send(Word::lost, BodyWriter().text(describe(mine)).body());
    else
      peer.connection.send(Word::farewell, BodyWriter()
                                               .number(static_cast<std::uint64_t>(farewell.exit_code))
                                               .number(static_cast<std::uint64_t>(mine.step))
                                               .text(mine.doing)
                                               .text(farewell.why)
                                               .body());
  }
  finish();
}

void Watch::beat() {
  const RankReport mine = own_report();
  BodyWriter body;
  body.number(static_cast<std::uint64_t>(mine.step)).text(doing_.load());
  write_report(body, mine);
  const auto message = std::make_shared<const std::string>(encode(Word::beat, body.body()));
  for (Peer& peer : peers_) peer.connection.send(message);
  next_beat_ = steady_clock::now() + limits_.beat;
  if (rank_ != 0) return;
  judge_.hear(0, mine);
  judge_collectives();
}

RankReport Watch::own_report() const { return {step_.load(), phase_.load(), log_.report()}; }

void Watch::judge_collectives() {
  if (const auto verdict = judge_.judge(steady_clock::now(), limits_.beat)) end_apart(verdict->what, verdict->table);
}

/// Waits for readable data, for room to write, for a request or the next heartbeat.
void Watch::wait() {
  std::vector<pollfd> list{{wake_.fd(), POLLIN, 0}};
  for (Peer& peer : peers_) {
    peer.connection.flush();  // a broken connection is detected by reading
    list.push_back({peer.connection.fd(), static_cast<short>(peer.connection.sent() ? POLLIN : POLLIN | POLLOUT), 0});
  }
  poll(list.data(), list.size(), poll_timeout(next_beat_));
  eventfd_t woken = 0;
  eventfd_read(wake_.fd(), &woken);
}

void Watch::hear() {
  for (std::size_t i = 0; i < peers_.size() && !over_; ++i) read(peers_[i]);
}

void Watch::read(Peer& peer) try {
  const std::uint64_t before = peer.connection.received();
  const bool open = peer.connection.receive();
  // A part of a long text counts: beats wait behind it.
  if (peer.connection.received() != before) peer.heard = true;
  while (const std::optional<Message> message = peer.connection.next()) {
    take(peer, *message);
    if (over_) return;
  }
  if (!open) lose(loss_of(peer, "its process ended without a message"));
} catch (const WireError& error) {
  lose(loss_of(peer, fmt::format("it sent {}", error.what())));
}

void Watch::take(Peer& peer, const Message& message) {
  BodyReader body(message.body);
  const bool from_root = rank_ != 0;
  switch (message.word) {
    case Word::beat:
      peer.step = static_cast<std::int64_t>(body.number());
      peer.doing = one_line(body.text());
      {
        RankReport report = read_report(body, peer.step);
        report.phase = one_line(report.phase);
        body.end();
        if (!from_root) judge_.hear(peer.rank, std::move(report));
      }
      return;
    case Word::apart: {
      if (!from_root) break;
      const std::string what = one_line(body.text());
      body.end();
      return end_apart(what, "");
    }
    case Word::gather:
    case Word::leave: {
      if (from_root) break;
      const std::uint64_t number = body.number();
      std::string text = body.text();
      body.end();
      return take_text(peer.rank, message.word, number, std::move(text));
    }
    case Word::gathered:
    case Word::left: {
      if (!from_root || !word_ || body.number() != number_) break;
      std::vector<std::string> texts = body.texts(static_cast<std::size_t>(world_size_));
      body.end();
      left_ = message.word == Word::left;
      return deliver(std::move(texts));
    }
    case Word::farewell: {
      if (from_root) break;
      const std::uint64_t code = body.number();
      peer.step = static_cast<std::int64_t>(body.number());
      peer.doing = one_line(body.text());
      Loss loss = loss_of(peer, fmt::format("it ended with exit code {}: {}", code, one_line(body.text())));
      loss.told = true;
      judge_.hear(0, own_report());
      if (code == static_cast<std::uint64_t>(Exit::peer_lost))
        if (const auto verdict = judge_.different()) return end_apart(verdict->what, verdict->table);
      return lose(loss);
    }
    case Word::lost: {
      if (!from_root) break;
      Loss loss;
      loss.rank = -1;
      loss.how = one_line(body.text());
      loss.told = true;
      return lose(loss);
    }
    default: break;
  }
  throw WireError("an unexpected message");
}

/// Rank 0: one text of the current call, or of the one that this rank is about to start.
void Watch::take_text(int rank, Word word, std::uint64_t number, std::string text) {
  std::optional<std::string>& place = gathered_[static_cast<std::size_t>(rank)];
  const std::uint64_t expected = word_ ? number_ : number_ + 1;
  if (place || number != expected) throw WireError("an unexpected string");
  place = static_cast<char>(word) + std::move(text);
  if (std::all_of(gathered_.begin(), gathered_.end(), [](const auto& one) { return one.has_value(); })) answer();
}

void Watch::answer() {
  judge_.hear(0, own_report());
  if (const auto verdict = judge_.different()) return end_apart(verdict->what, verdict->table);
  std::vector<std::string> texts;
  for (std::size_t rank = 0; rank < gathered_.size(); ++rank) {
    if (static_cast<Word>((*gathered_[rank])[0]) != *word_) {
      const Loss loss{static_cast<int>(rank), -1, "", "it made a different call than rank 0, which is a bug in llmc"};
      gathered_.assign(gathered_.size(), std::nullopt);
      return lose(loss);
    }
    texts.push_back(gathered_[rank]->substr(1));
  }
  gathered_.assign(gathered_.size(), std::nullopt);
  left_ = word_ == Word::leave;
  const auto message = std::make_shared<const std::string>(
      encode(left_ ? Word::left : Word::gathered, BodyWriter().number(number_).texts(texts).body()));
  for (Peer& peer : peers_) {
    peer.connection.send(message);
    peer.connection.flush();
  }
  deliver(std::move(texts));
}

void Watch::deliver(std::vector<std::string> texts) {
  word_.reset();
  if (left_) finish();
  const std::lock_guard lock(mutex_);
  result_ = std::move(texts);
  changed_.notify_all();
}

void Watch::judge_silence() {
  // A rank that was itself stopped does not count that time: where a whole machine stands still, the others were
  // stopped too, and their beats come later than this thread wakes up.
  const auto now = steady_clock::now();
  const auto passed = std::min<steady_clock::duration>(now - std::exchange(judged_, now), 2 * limits_.beat);
  for (Peer& peer : peers_) {
    if (over_) return;
    peer.silent = std::exchange(peer.heard, false) ? steady_clock::duration(0) : peer.silent + passed;
    if (peer.silent < limits_.silence) continue;
    const double seconds = std::chrono::duration<double>(limits_.silence).count();
    return lose(
        loss_of(peer, fmt::format("it sent nothing for {:g} s: it is stopped, or its network is down", seconds)));
  }
}

Watch::Loss Watch::loss_of(const Peer& peer, std::string how) const {
  return {peer.rank, peer.step, peer.doing, std::move(how)};
}

/// "rank 2 (host b) is lost: its process ended without a message. It was last at step 12 in forward and backward"
std::string Watch::describe(const Loss& loss) const {
  const std::string text =
      fmt::format("rank {} (host {}) is lost: {}", loss.rank, hosts_[static_cast<std::size_t>(loss.rank)], loss.how);
  return loss.doing.empty() ? text : fmt::format("{}. It was last {}", text, place(loss.step, loss.doing));
}

/// Tells the others, and ends this process.
void Watch::lose(const Loss& loss) {
  const std::string what = loss.rank < 0 ? loss.how : describe(loss);
  if (rank_ == 0) {
    for (Peer& peer : peers_) {
      peer.connection.send(Word::lost, BodyWriter().text(what).body());
      peer.connection.flush();
    }
  }
  if (loss.told) {
    // A rank that sent a farewell waits until it was received.
    for (Peer& peer : peers_)
      if (peer.rank == loss.rank || rank_ != 0) peer.connection.finish(steady_clock::now());
    if (main_ends_by_itself()) return finish(loss.rank);
  }
  write_error_line(last_line(what));
  finish(loss.rank);
  std::this_thread::sleep_for(kOwnEnd);
  _exit(static_cast<int>(Exit::peer_lost));
}

void Watch::end_apart(const std::string& what, const std::string& table) {
  if (rank_ == 0)
    for (Peer& peer : peers_) {
      peer.connection.send(Word::apart, BodyWriter().text(what).body());
      peer.connection.flush();
    }
  write_error_line(rank_ == 0 ? last_line(what) + "\n" + table : last_line(what) + ". Rank 0 prints the table");
  finish();
  std::this_thread::sleep_for(kOwnEnd);
  _exit(static_cast<int>(Exit::peer_lost));
}

std::string Watch::last_line(const std::string& what) const {
  return fmt::format("{}. This is rank {} (host {}), {}, which ends with exit code {}", what, rank_,
                     hosts_[static_cast<std::size_t>(rank_)], place(step_, doing_.load()),
                     static_cast<int>(Exit::peer_lost));
}

/// Waits a moment for an error of this rank's own.
bool Watch::main_ends_by_itself() {
  constexpr int peer_lost = static_cast<int>(Exit::peer_lost);  // no error of its own
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kOwnEnd, [&] { return stop_ || (farewell_ && farewell_->exit_code != peer_lost); });
}

/// Closes all connections except that of a rank that may no longer answer.
void Watch::finish(int except) {
  over_ = true;
  const auto until = steady_clock::now() + kLastWords;
  for (Peer& peer : peers_) peer.connection.flush();
  for (Peer& peer : peers_)
    if (peer.rank != except) peer.connection.finish(until);
}

}  // namespace llmc
