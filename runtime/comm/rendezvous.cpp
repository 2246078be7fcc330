#include "comm/rendezvous.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "comm/assembly.h"
#include "comm/blocked_signals.h"
#include "comm/mpi_library.h"
#include "comm/watch.h"
#include "error.h"

namespace llmc {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kPortPatience{10};  // for the port of a run that was just killed

/// MPI's start waits for all ranks and has no limit: this ends the process where it takes too long.
class StartLimit {
 public:
  StartLimit(const Launch& launch, std::chrono::milliseconds limit) {
    const BlockedSignals blocked;
    thread_ = std::thread([this, launch, limit] { watch(launch, limit); });
  }
  ~StartLimit() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    ended_.notify_all();
    thread_.join();
  }

 private:
  void watch(const Launch& launch, std::chrono::milliseconds limit) {
    std::unique_lock lock(mutex_);
    if (ended_.wait_for(lock, limit, [&] { return done_; })) return;
    const std::string line = fmt::format(
        "error: MPI did not bring the {} ranks together within {:g} s; the log of one that is missing says why. This "
        "is "
        "rank {} (host {})\n",
        launch.world_size, std::chrono::duration<double>(limit).count(), launch.rank, own_host());
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, line.data(), line.size());
    _exit(static_cast<int>(Exit::peer_lost));
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  bool done_ = false;
  std::thread thread_;
};

/// Where rank 0 listens, as MPI tells it: "ID PORT ADDRESS ADDRESS ...". The id is drawn, so that another run's rank 0
/// is not taken for this one's.
struct Invitation {
  std::string id;
  std::vector<Address> addresses;
};

std::string own_invitation(int port) {
  std::random_device random;
  std::string text = fmt::format("{:08x}{:08x}{:08x}{:08x}\n{}\n", random(), random(), random(), random(), port);
  for (const std::string& address : own_addresses()) text += address + "\n";
  return text;
}

Invitation read_invitation(const std::string& text) {
  Invitation invitation;
  int port = 0;
  std::size_t line = 0;
  for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1, ++line) {
    const std::string word = text.substr(begin, end - begin);
    if (line == 0) invitation.id = word;
    if (line == 1) port = std::stoi(word);
    if (line > 1) invitation.addresses.push_back({word, port});
  }
  return invitation;
}

std::string broadcast_text(Mpi& mpi, std::string text) {
  std::uint64_t size = text.size();
  mpi.broadcast(&size, sizeof size, 0);
  text.resize(size);
  mpi.broadcast(text.data(), size, 0);
  return text;
}

/// "PROGRAM is 1f.. on rank 0 (host a) and 2e.. on ranks 1-3 (hosts b, c)"
std::string difference(const std::string& name, const std::vector<std::string>& values,
                       const std::vector<std::string>& hosts) {
  std::map<std::string, std::vector<int>> ranks;
  std::vector<std::string> order;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (!ranks.contains(values[rank])) order.push_back(values[rank]);
    ranks[values[rank]].push_back(static_cast<int>(rank));
  }
  std::string text = name + " is ";
  for (const std::string& value : order) {
    std::vector<std::string> of_value;
    for (const int rank : ranks[value]) of_value.push_back(hosts[static_cast<std::size_t>(rank)]);
    std::sort(of_value.begin(), of_value.end());
    of_value.erase(std::unique(of_value.begin(), of_value.end()), of_value.end());
    text += fmt::format("{}{} on {} ({} {})", value == order.front() ? "" : " and ", value, rank_list(ranks[value]),
                        of_value.size() == 1 ? "host" : "hosts", fmt::join(of_value, ", "));
  }
  return text;
}

}  // namespace

struct Rendezvous::Impl {
  Launch launch;
  std::optional<Mpi> mpi;
  std::optional<Watch> watch;
  bool left = false;
};

Rendezvous::Rendezvous(const Launch& launch, const Limits& limits) : impl_(std::make_unique<Impl>()) {
  impl_->launch = launch;
  if (launch.world_size == 1) return;
  const auto begin = steady_clock::now();
  const auto until = begin + limits.start;
  Invitation invitation{launch.id, {{launch.host, launch.port}}};
  std::optional<Socket> listener;
  if (launch.rank == 0) listener = listen_at(launch.port, std::min(until, begin + kPortPatience));
  if (launch.host.empty()) {
    const StartLimit limit(launch, limits.start);
    Mpi& mpi = this->mpi();
    const std::string text = launch.rank == 0 ? own_invitation(port_of(*listener)) : "";
    invitation = read_invitation(broadcast_text(mpi, text));
  }
  impl_->watch.emplace(launch, limits,
                       launch.rank == 0 ? receive_ranks(launch, invitation.id, *listener, until)
                                        : join_ranks(launch, invitation.id, invitation.addresses, until));
}

Rendezvous::~Rendezvous() = default;

std::vector<std::string> Rendezvous::all_gather(const std::string& mine) {
  if (mine.size() > kMaxText)
    throw Failure(Exit::internal,
                  fmt::format("a text of {} bytes for the other ranks, where {} are allowed", mine.size(), kMaxText));
  if (!impl_->watch) return {mine};
  return impl_->watch->gather(mine);
}

std::string Rendezvous::broadcast(const std::string& mine, int root) {
  return all_gather(impl_->launch.rank == root ? mine : "")[static_cast<std::size_t>(root)];
}

void Rendezvous::barrier() { all_gather(""); }

void Rendezvous::agree(const std::vector<std::pair<std::string, std::string>>& facts) {
  if (!impl_->watch) return;
  BodyWriter mine;
  mine.number(facts.size());
  for (const auto& [name, value] : facts) mine.text(name).text(value);
  std::vector<std::string> names;  // in the order in which they come
  std::map<std::string, std::vector<std::string>> values;
  const std::vector<std::string> all = all_gather(mine.body());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    BodyReader body(all[rank]);
    for (std::uint64_t count = body.number(); count > 0; --count) {
      const std::string name = body.text();
      if (!values.contains(name)) {
        names.push_back(name);
        values[name].assign(all.size(), "nothing");
      }
      values[name][rank] = body.text();
    }
  }
  std::string text;
  for (const std::string& name : names) {
    const std::vector<std::string>& of_ranks = values[name];
    if (std::adjacent_find(of_ranks.begin(), of_ranks.end(), std::not_equal_to<>()) == of_ranks.end()) continue;
    text += (text.empty() ? "" : "; ") + difference(name, of_ranks, impl_->watch->hosts());
  }
  if (text.empty()) return;
  impl_->watch->leave();  // all ranks end, each by itself
  throw Failure(Exit::usage, "the ranks of a run must be equal, and these are not: " + text);
}

void Rendezvous::at(std::int64_t step, const char* doing) {
  if (impl_->watch) impl_->watch->at(step, doing);
}

void Rendezvous::farewell(int exit_code, const std::string& why) noexcept {
  try {
    if (impl_->watch) impl_->watch->farewell(exit_code, why);
  } catch (...) {
    // This rank ends anyway, and the others notice.
  }
}

void Rendezvous::leave() {
  if (std::exchange(impl_->left, true)) return;
  if (impl_->watch) impl_->watch->leave();
  if (impl_->mpi) impl_->mpi->finalize();
}

Mpi& Rendezvous::mpi() {
  if (!impl_->mpi) impl_->mpi.emplace(impl_->launch);
  return *impl_->mpi;
}

}  // namespace llmc
