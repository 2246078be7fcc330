#include "comm/together.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <map>
#include <thread>
#include <vector>

#include "comm/connection.h"
#include "files/disk.h"
#include "files/durable_file.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds kFileSystemPatience{15};  // a network file system may show a new file late

/// Exit code and message as exchanged by ranks; empty on success.
std::string outcome(const std::function<void()>& work) {
  const auto failed = [](Exit code, const char* what) { return fmt::format("{} {}", static_cast<int>(code), what); };
  try {
    work();
    return "";
  } catch (const Failure& failure) {
    return failed(failure.code(), failure.what());
  } catch (const std::exception& error) {
    return failed(Exit::internal, error.what());
  }
}

bool appears(const fs::path& file) {
  const auto end = std::chrono::steady_clock::now() + kFileSystemPatience;
  std::error_code error;
  while (!fs::exists(file, error)) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return true;
}

}  // namespace

LauncherInfo identified(LauncherInfo launch, const std::string& fingerprint, const fs::path& run) {
  launch.fingerprint = fingerprint;
  if (launch.world_size > 1 && launch.id.empty())
    launch.id = disk::absolute(run, Exit::checkpoint).lexically_normal().string();
  return launch;
}

void together(const LauncherInfo& launch, Rendezvous& ranks, const std::function<void()>& work, Rendezvous::Wait wait) {
  if (launch.world_size == 1) return work();
  const std::vector<std::string> outcomes = ranks.all_gather(outcome(work), wait);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].empty()) continue;
    const std::size_t blank = outcomes[rank].find(' ');
    // A failure of rank 0 usually occurs on all ranks: a wrong argument, a missing file.
    throw SharedFailure(static_cast<Exit>(std::stoi(outcomes[rank].substr(0, blank))),
                        (rank ? fmt::format("rank {}: ", rank) : "") + outcomes[rank].substr(blank + 1));
  }
}

void check_shared(const LauncherInfo& launch, Rendezvous& ranks, const fs::path& run) {
  if (launch.world_size == 1) return;
  const bool first = launch.rank == 0;
  const std::string name = ranks.broadcast(first ? fmt::format(".ranks-{}-{}", ::getpid(), own_host()) : "", 0);
  together(launch, ranks, [&] {
    if (first) write_file_atomically(run / name, "");
  });
  const bool seen = appears(run / name);
  const std::vector<std::string> others = ranks.all_gather(seen ? "" : own_host());
  if (first) {
    std::error_code ignored;
    fs::remove(run / name, ignored);
  }
  for (std::size_t rank = 0; rank < others.size(); ++rank)
    if (!others[rank].empty())
      throw SharedFailure(Exit::checkpoint,
                          fmt::format("rank {} on {} does not see what rank 0 on {} writes to '{}', but all ranks save "
                                      "to one folder. Give --run DIR on a file system that all machines share",
                                      rank, others[rank], own_host(), run.string()));
}

void check_distinct(const LauncherInfo& launch, Rendezvous& ranks, const std::string& mine) {
  if (launch.world_size == 1) return;
  const std::vector<std::string> all = ranks.all_gather(mine.empty() ? "" : own_host() + " " + mine);
  std::map<std::string, std::size_t> owners;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    const auto [owner, fresh] = owners.emplace(all[rank], rank);
    if (!fresh && !all[rank].empty())
      throw SharedFailure(Exit::usage, fmt::format("ranks {} and {} use the same GPU, {}. Start at most as many ranks "
                                                   "on a machine as it has GPUs, and leave out --device",
                                                   owner->second, rank, all[rank]));
  }
}

RankLog open_rank_log(const fs::path& run, int rank) {
  make_directories(run / "ranks");
  const fs::path path = run / "ranks" / fmt::format("rank-{:04}.log", rank);
  const int file = open_own_file(path, O_WRONLY | O_APPEND);
  RankLog log(::fdopen(file, "a"));
  if (log) return log;
  const int code = errno;
  ::close(file);
  errno = code;
  throw_errno("open", path);
}

}  // namespace llmc
