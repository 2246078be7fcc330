#include "comm/assembly.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <thread>

#include "error.h"
#include "text/message.h"
#include "text/plural.h"
#include "text/printable.h"

namespace llmc {
namespace {

using std::chrono::steady_clock;

constexpr std::size_t kSmallBody = 8192;                       // of a hello, with the path of a run, or of an answer
constexpr std::size_t kWelcomeBody = 64 * std::size_t{65536};  // hosts of all ranks
constexpr std::chrono::seconds kPatience{5};                   // with a connected peer that sends nothing
constexpr std::size_t kStrangers = 64;                         // unlisted peers that may be connected at a time with
                                                               // the ranks
constexpr int kTold = 4;                                       // refusals that rank 0 reports as they happen
constexpr std::size_t kLongestName = 300;                      // of a host or a run in messages
constexpr std::chrono::milliseconds kFarewell{1000};           // for the last message to arrive

/// A peer's text for quoting in messages.
std::string quotable(std::string_view text) { return printable(text.substr(0, utf8_floor(text, kLongestName))); }

/// First message of a rank.
struct Hello {
  std::uint64_t rank, world_size;
  std::string id, fingerprint, host;
};

std::string hello_of(const LauncherInfo& launch, const std::string& id) {
  return BodyWriter()
      .number(static_cast<std::uint64_t>(launch.rank))
      .number(static_cast<std::uint64_t>(launch.world_size))
      .text(id)
      .text(launch.fingerprint)
      .text(own_host())
      .body();
}

Hello read_hello(const Message& message) {
  if (message.word != Word::hello) throw WireError("a message that is not a hello");
  BodyReader body(message.body);
  Hello hello;
  hello.rank = body.number();
  hello.world_size = body.number();
  hello.id = body.text();
  hello.fingerprint = body.text();
  hello.host = quotable(body.text());
  body.end();
  return hello;
}

/// Reason for refusing a peer: the part it is told, and what rank 0 also reports itself. A peer that does not know the
/// run's id or fingerprint is not told them.
struct Refusal {
  std::string why, own;
};

constexpr const char* kOtherRun =
    ": two runs use this port, or the launcher numbers its ranks wrong. Give each run its own MASTER_PORT";

/// The assembly on rank 0.
class Meeting {
 public:
  Meeting(const LauncherInfo& launch, const std::string& id, const Socket& listener)
      : launch_(launch), id_(id), listener_(listener), members_(static_cast<std::size_t>(launch.world_size)) {
    assembly_.hosts.assign(members_.size(), "");
    assembly_.hosts[0] = own_host();
  }

  Assembly run(MonotonicTime until) {
    while (!missing().empty()) {
      if (steady_clock::now() >= until) give_up(absent());
      wait(until);
      hear_strangers();  // each is read at least once before a newcomer replaces it
      greet_newcomers();
      watch_members();
    }
    const std::string hosts = BodyWriter().texts(assembly_.hosts).body();
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      members_[rank]->send(Word::welcome, hosts);
      members_[rank]->flush();
      assembly_.connections.push_back(std::move(*members_[rank]));
    }
    return std::move(assembly_);
  }

 private:
  struct Stranger {
    Connection connection;
    MonotonicTime until;
    bool refused = false;  // kept until it has read the refusal
  };

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (std::size_t rank = 1; rank < members_.size(); ++rank)
      if (!members_[rank]) ranks.push_back(static_cast<int>(rank));
    return ranks;
  }

  std::string absent() const {
    std::string text = fmt::format("{} of {} did not connect to rank 0 on {}", rank_list(missing()), launch_.world_size,
                                   assembly_.hosts[0]);
    if (!refused_.empty()) text += "; rank 0 refused: " + refused_;
    return text + ". The log of each missing rank shows why, or what it did last";
  }

  [[noreturn]] void give_up(const std::string& why) {
    const std::string body = BodyWriter().number(static_cast<int>(Exit::peer_lost)).text(why).body();
    for (std::optional<Connection>& member : members_)
      if (member) member->send(Word::refused, body);
    const auto until = steady_clock::now() + kFarewell;
    for (std::optional<Connection>& member : members_)
      if (member) member->finish(until);
    throw Failure(Exit::peer_lost, why);
  }

  void wait(MonotonicTime until) {
    std::vector<pollfd> list{{listener_.fd(), POLLIN, 0}};
    for (const Stranger& stranger : strangers_) {
      list.push_back({stranger.connection.fd(), POLLIN, 0});
      until = std::min(until, stranger.until);
    }
    for (const std::optional<Connection>& member : members_)
      if (member) list.push_back({member->fd(), POLLIN, 0});
    poll(list.data(), list.size(), poll_timeout(until));
  }

  void greet_newcomers() {
    for (std::size_t count = 0; count < kStrangers; ++count) {
      std::optional<Socket> socket = accept_at(listener_);
      if (!socket) return;
      strangers_.push_back({Connection(std::move(*socket), kSmallBody), steady_clock::now() + kPatience});
      if (strangers_.size() > kStrangers + members_.size()) strangers_.pop_front();
    }
  }

  void hear_strangers() {
    for (auto one = strangers_.begin(); one != strangers_.end();) {
      const bool open = one->refused ? one->connection.drop() : one->connection.receive();
      bool done = !open || steady_clock::now() >= one->until;
      if (!done && !one->refused) try {
          if (const std::optional<Message> message = one->connection.next()) done = hear(*one, *message);
        } catch (const WireError& error) {
          refused_ = fmt::format("a connection that sent {}", error.what());
          done = true;
        }
      one = done ? strangers_.erase(one) : std::next(one);
    }
  }

  /// Handles a hello: accepts the peer as a rank and returns true, or refuses it.
  bool hear(Stranger& stranger, const Message& message) {
    const Hello hello = read_hello(message);
    if (const Refusal refusal = refusal_of(hello); !refusal.why.empty()) {
      refused_ = refusal.own + refusal.why;
      if (told_++ < kTold) to_stderr("warning: refused a connection to the ranks' port: {}\n", refused_);
      const std::string body = BodyWriter().number(static_cast<int>(Exit::usage)).text(refusal.why).body();
      stranger.connection.send(Word::refused, body);
      stranger.connection.flush();
      stranger.refused = true;
      return false;
    }
    stranger.connection.send(Word::accepted, BodyWriter().text(assembly_.hosts[0]).body());
    stranger.connection.flush();
    assembly_.hosts[hello.rank] = hello.host;
    members_[hello.rank] = std::move(stranger.connection);
    return true;
  }

  Refusal refusal_of(const Hello& hello) const {
    const std::uint64_t rank = hello.rank, world = hello.world_size;
    const std::string who = fmt::format("rank {} on {}", rank, hello.host), &host = assembly_.hosts[0];
    if (hello.id != id_)
      return {fmt::format(
                  "{} is of the run '{}', but rank 0 on {} is of another run{} and give all its ranks the same --run",
                  who, quotable(hello.id), host, kOtherRun),
              fmt::format("this run is '{}'; ", id_)};
    if (hello.fingerprint != launch_.fingerprint)
      return {fmt::format("{} is a trainer with fingerprint {}, but rank 0 on {} has another fingerprint. Start all "
                          "ranks of a run with the same trainer",
                          who, quotable(hello.fingerprint), host),
              fmt::format("this trainer's fingerprint is {}; ", launch_.fingerprint)};
    if (world != members_.size())
      return {fmt::format("{} has a world size of {}, but rank 0 on {} has {} ranks{}", who, world, host,
                          members_.size(), kOtherRun),
              ""};
    if (rank == 0 || rank >= members_.size())
      return {fmt::format("rank {} of {} on {} is out of range{}", rank, world, hello.host, kOtherRun), ""};
    if (members_[rank])
      return {fmt::format("rank {} on {} has connected already, from {}{}", rank, hello.host, assembly_.hosts[rank],
                          kOtherRun),
              ""};
    return {};
  }

  void watch_members() {
    for (std::size_t rank = 1; rank < members_.size(); ++rank) {
      if (!members_[rank] || (members_[rank]->receive() && is_silent(*members_[rank]))) continue;
      members_[rank].reset();
      give_up(fmt::format("rank {} on {} ended before all {} ranks had connected. Its log shows why", rank,
                          assembly_.hosts[rank], launch_.world_size));
    }
  }

  /// A rank must send nothing before the welcome.
  static bool is_silent(Connection& member) try { return !member.next(); } catch (const WireError&) {
    return false;
  }

  const LauncherInfo& launch_;
  const std::string& id_;
  const Socket& listener_;
  std::list<Stranger> strangers_;
  std::vector<std::optional<Connection>> members_;  // by rank
  Assembly assembly_;
  std::string refused_;  // the last one, for the message of a run that does not assemble
  int told_ = 0;         // refusals reported
};

/// One attempt of another rank: the assembly, or the reason of its failure.
class Visit {
 public:
  Visit(const LauncherInfo& launch, const std::string& id, Connection connection)
      : launch_(launch), connection_(std::move(connection)) {
    connection_.send(Word::hello, hello_of(launch, id));
  }

  std::optional<Assembly> run(MonotonicTime until, std::string& why) {
    const auto patience = std::min(until, steady_clock::now() + kPatience);
    while (true) {
      const MonotonicTime limit = accepted_ ? until : patience;
      if (!connection_.flush()) break;
      pollfd wait{connection_.fd(), static_cast<short>(connection_.sent() ? POLLIN : POLLIN | POLLOUT), 0};
      const int ready = poll(&wait, 1, poll_timeout(limit));
      if (ready == 0) {
        why = accepted_ ? "it did not report that all ranks have connected"
                        : "the program that listens there does not answer as rank 0 does";
        return std::nullopt;
      }
      const bool open = connection_.receive();
      while (const std::optional<Message> message = connection_.next())
        if (hear(*message)) return Assembly{std::move(hosts_), one(std::move(connection_))};
      if (!open) break;
    }
    if (accepted_)
      throw Failure(Exit::peer_lost,
                    fmt::format("rank 0 on {} ended before all {} ranks had connected. Its log shows why", host_,
                                launch_.world_size));
    why = "the program that listens there closed the connection";
    return std::nullopt;
  }

 private:
  static std::vector<Connection> one(Connection connection) {
    std::vector<Connection> list;
    list.push_back(std::move(connection));
    return list;
  }

  /// Returns whether all ranks have connected.
  bool hear(const Message& message) {
    BodyReader body(message.body);
    switch (message.word) {
      case Word::accepted:
        host_ = quotable(body.text());
        accepted_ = true;
        connection_.set_limit(kWelcomeBody);
        return false;
      case Word::refused: {
        const std::uint64_t exit = body.number();
        throw Failure(exit == static_cast<int>(Exit::usage) ? Exit::usage : Exit::peer_lost, printable(body.text()));
      }
      case Word::welcome:
        hosts_ = body.texts(static_cast<std::size_t>(launch_.world_size));
        std::ranges::transform(hosts_, hosts_.begin(), quotable);
        return true;
      default: throw WireError("a message that is not an answer of rank 0");  // hello: a socket connected to itself
    }
  }

  const LauncherInfo& launch_;
  Connection connection_;
  std::vector<std::string> hosts_;
  std::string host_;
  bool accepted_ = false;
};

}  // namespace

Assembly receive_ranks(const LauncherInfo& launch, const std::string& id, const Socket& listener, MonotonicTime until) {
  return Meeting(launch, id, listener).run(until);
}

Assembly join_ranks(const LauncherInfo& launch, const std::string& id, const std::vector<Address>& addresses,
                    MonotonicTime until) {
  std::string why = "the host has no address";
  auto pause = std::chrono::milliseconds(5);
  // Rank 0 knows the missing ranks: it gets a moment longer to report them.
  const auto end = until + kFarewell;
  while (true) {
    for (const Address& address : addresses) try {
        std::optional<Socket> socket = connect_to(address, end, why);
        if (!socket) continue;
        if (std::optional<Assembly> assembly = Visit(launch, id, {std::move(*socket), kSmallBody}).run(end, why))
          return std::move(*assembly);
      } catch (const WireError& error) {
        why = fmt::format("the program that listens there sent {}", error.what());
      }
    if (steady_clock::now() + pause >= end) break;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(500));
  }
  std::string places;
  for (const Address& address : addresses)
    places += fmt::format("{}{}:{}", places.empty() ? "" : ", ", address.host, address.port);
  throw Failure(Exit::peer_lost, fmt::format("rank {} on {} could not connect to rank 0 at {}: {}", launch.rank,
                                             own_host(), places, why));
}

std::string rank_list(const std::vector<int>& ranks) {
  std::string text = fmt::format("rank{} ", plural(static_cast<std::int64_t>(ranks.size())));
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    text += fmt::format("{}{}", i ? ", " : "", ranks[i]);
    if (last > i) text += fmt::format("-{}", ranks[last]);
    i = last + 1;
  }
  return text;
}

}  // namespace llmc
