#include "comm/rendezvous.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>

#include "comm/assembly.h"
#include "comm/mpi_library.h"
#include "comm/watch.h"
#include "error.h"

namespace llmc {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kPortPatience{10};  // for the port of a run that was just killed

/// Rank 0's address as sent by MPI: "ID PORT ADDRESS ADDRESS ...". The id is random, so that another run's rank 0 is
/// not mistaken for this one's.
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

double seconds(std::chrono::milliseconds time) { return std::chrono::duration<double>(time).count(); }

/// A value of a fact, and the ranks that have it.
struct Holders {
  std::string value;
  std::vector<int> ranks;
};

/// Ordered by first rank.
std::vector<Holders> holders_of(const std::vector<std::string>& values) {
  std::vector<Holders> list;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    auto same = std::ranges::find(list, values[rank], &Holders::value);
    if (same == list.end()) same = list.insert(list.end(), {values[rank], {}});
    same->ranks.push_back(static_cast<int>(rank));
  }
  return list;
}

}  // namespace

struct Rendezvous::Impl {
  LauncherInfo launch;
  Limits limits;
  std::optional<Mpi> mpi;
  std::optional<Watch> watch;
  bool left = false;
};

Rendezvous::Rendezvous(const LauncherInfo& launch, const Limits& limits) : impl_(std::make_unique<Impl>()) {
  impl_->launch = launch;
  impl_->limits = limits;
  if (launch.world_size == 1) return;
  const auto begin = steady_clock::now();
  const auto until = begin + limits.start;
  Invitation invitation{launch.id, {{launch.host, launch.port}}};
  std::optional<Socket> listener;
  if (launch.rank == 0) listener = listen_at(launch.port, std::min(until, begin + kPortPatience));
  if (launch.host.empty()) {
    const TimeLimit limit = start_limit("MPI");
    Mpi& mpi = this->mpi();
    const std::string text = launch.rank == 0 ? own_invitation(port_of(*listener)) : "";
    invitation = read_invitation(broadcast_text(mpi, text));
  }
  impl_->watch.emplace(launch, limits,
                       launch.rank == 0 ? receive_ranks(launch, invitation.id, *listener, until)
                                        : join_ranks(launch, invitation.id, invitation.addresses, until));
}

Rendezvous::~Rendezvous() = default;

std::vector<std::string> Rendezvous::all_gather(const std::string& mine, Wait wait) {
  if (mine.size() > kMaxText)
    throw Failure(Exit::internal, fmt::format("a message of {} bytes for the other ranks is too long: {} are allowed",
                                              mine.size(), kMaxText));
  if (!impl_->watch) return {mine};
  return impl_->watch->gather(mine, wait);
}

std::string Rendezvous::broadcast(const std::string& mine, int root, Wait wait) {
  return all_gather(impl_->launch.rank == root ? mine : "", wait)[static_cast<std::size_t>(root)];
}

void Rendezvous::barrier(Wait wait) { all_gather("", wait); }

std::string Rendezvous::names(const std::vector<int>& ranks) const {
  std::vector<std::string> hosts;
  for (const int rank : ranks)
    hosts.push_back(impl_->watch ? impl_->watch->hosts()[static_cast<std::size_t>(rank)] : own_host());
  std::ranges::sort(hosts);
  hosts.erase(std::unique(hosts.begin(), hosts.end()), hosts.end());
  return fmt::format("{} ({} {})", rank_list(ranks), hosts.size() == 1 ? "host" : "hosts", fmt::join(hosts, ", "));
}

Rendezvous::Difference Rendezvous::compare(const Facts& facts) {
  if (!impl_->watch) return {};
  BodyWriter mine;
  mine.number(facts.size());
  for (const auto& [name, value] : facts) mine.text(name).text(value);
  std::vector<std::string> order;  // in order of appearance
  std::map<std::string, std::vector<std::string>> values;
  const std::vector<std::string> all = all_gather(mine.body());
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    BodyReader body(all[rank]);
    for (std::uint64_t count = body.number(); count > 0; --count) {
      const std::string name = body.text();
      if (!values.contains(name)) {
        order.push_back(name);
        values[name].assign(all.size(), "nothing");
      }
      values[name][rank] = body.text();
    }
  }
  Difference difference;
  std::set<int> alone;
  for (const std::string& name : order) {
    const std::vector<Holders> list = holders_of(values[name]);
    if (list.size() == 1) continue;
    std::string text;
    for (const Holders& holders : list)
      text += fmt::format("{}{} on {}", text.empty() ? name + " is " : " and ", holders.value, names(holders.ranks));
    difference.text += (difference.text.empty() ? "" : "; ") + text;
    const auto most = std::ranges::max_element(list, {}, [](const Holders& holders) { return holders.ranks.size(); });
    if (2 * most->ranks.size() <= all.size()) continue;
    for (const Holders& holders : list)
      if (&holders != &*most) alone.insert(holders.ranks.begin(), holders.ranks.end());
  }
  difference.alone.assign(alone.begin(), alone.end());
  return difference;
}

void Rendezvous::agree(const Facts& facts) {
  const Difference difference = compare(facts);
  if (difference.text.empty()) return;
  throw Failure(Exit::usage, "the ranks of a run differ in values that must be equal: " + difference.text);
}

void Rendezvous::at(std::int64_t step, const char* doing) {
  if (impl_->watch) impl_->watch->at(step, doing);
}

const char* Rendezvous::doing(const char* now) { return impl_->watch ? impl_->watch->doing(now) : now; }

CollectiveLog* Rendezvous::collectives() { return impl_->watch ? &impl_->watch->collectives() : nullptr; }

Rendezvous::Progress Rendezvous::progress() const { return impl_->watch ? impl_->watch->progress() : Progress{}; }

void Rendezvous::farewell(int exit_code, const std::string& why) noexcept {
  try {
    if (impl_->watch) impl_->watch->farewell(exit_code, why);
  } catch (...) {
    // This rank is ending anyway, and the others notice.
  }
}

void Rendezvous::leave() {
  if (std::exchange(impl_->left, true)) return;
  if (impl_->watch) impl_->watch->leave();
  if (!impl_->mpi) return;
  const TimeLimit limit(impl_->limits.silence,
                        fmt::format("MPI did not end within {:g} s after the last step: another rank is stopped, or "
                                    "its network is down. This is rank {} (host {}), which has finished its work",
                                    seconds(impl_->limits.silence), impl_->launch.rank, own_host()));
  impl_->mpi->finalize();
}

TimeLimit Rendezvous::start_limit(const std::string& library) const {
  return {impl_->limits.start,
          fmt::format("{} did not connect the {} ranks within {:g} s. The log of a missing rank shows why. This is "
                      "rank {} (host {})",
                      library, impl_->launch.world_size, seconds(impl_->limits.start), impl_->launch.rank, own_host())};
}

void Rendezvous::end(const std::string& why) noexcept { impl_->watch->end(why); }

Mpi& Rendezvous::mpi() {
  if (!impl_->mpi) impl_->mpi.emplace(impl_->launch);
  return *impl_->mpi;
}

}  // namespace llmc
