// Compares rates of the trainer's collectives with NCCL's own calls: collectives RANKS RUNS MiB... starts RANKS ranks
// on this machine, one per GPU. Rank 0 prints as JSON, for each collective and size, GB/s on the bus as NCCL's tests
// count them: of all-reduce 2 (n - 1) / n times the bytes over the seconds, of the others half of that.
#include "comm/collectives.h"

#include <fmt/format.h>
#include <nccl.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "comm/launcher.h"
#include "comm/rendezvous.h"
#include "comm/spawn.h"
#include "device/device.h"
#include "error.h"
#include "event_clock.h"

namespace llmc {
namespace {

constexpr int kRounds = 3;

void check(ncclResult_t result, const char* call) {
  if (result != ncclSuccess)
    throw Failure(Exit::toolchain, fmt::format("{} says \"{}\"", call, ncclGetErrorString(result)));
}

/// NCCL without llmc's code around it.
class Raw {
 public:
  Raw(int rank, int ranks, Rendezvous& rendezvous) {
    ncclUniqueId id{};
    if (rank == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    const std::string text = rendezvous.broadcast({id.internal, sizeof id.internal}, 0);
    std::memcpy(id.internal, text.data(), sizeof id.internal);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    check(ncclCommInitRankConfig(&comm, ranks, id, rank, &config), "ncclCommInitRankConfig");
  }
  ~Raw() { ncclCommDestroy(comm); }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;

  ncclComm_t comm = nullptr;
};

/// Ms of one of `runs` consecutive runs, on the slowest rank.
double ms_of_all(Rendezvous& rendezvous, Stream& stream, int runs, const std::function<void()>& run) {
  bench::EventClock clock(stream);
  rendezvous.barrier();
  clock.begin();
  for (int i = 0; i < runs; ++i) run();
  double slowest = 0;
  for (const std::string& ms : rendezvous.all_gather(std::to_string(clock.end() / runs)))
    slowest = std::max(slowest, std::strtod(ms.c_str(), nullptr));
  return slowest;
}

double median(std::array<double, kRounds> values) {
  std::sort(values.begin(), values.end());
  return values[kRounds / 2];
}

class Collectives {
 public:
  Collectives(Device& device, Communicator& ranks, Rendezvous& rendezvous, int runs)
      : device_(device), ranks_(ranks), rendezvous_(rendezvous), raw_(ranks.rank(), ranks.world_size(), rendezvous) {
    runs_ = runs;
  }

  /// "{"all_reduce": {...}, ...}" for a buffer of `bytes` bytes.
  std::string measure(std::byte* memory, std::size_t bytes) {
    auto* data = reinterpret_cast<float*>(memory);
    const auto n = static_cast<std::size_t>(ranks_.world_size());
    const std::size_t share = bytes / sizeof(float) / n, count = share * n;
    float* mine = data + static_cast<std::size_t>(ranks_.rank()) * share;
    Stream& stream = device_.stream();
    const double moved =
        static_cast<double>(count * sizeof(float)) * static_cast<double>(n - 1) / static_cast<double>(n);
    return fmt::format(
        "{{\"all_reduce\": {}, \"reduce_scatter\": {}, \"all_gather\": {}}}",
        rates(
            2 * moved, [&](Stream& on) { ranks_.all_reduce_sum(data, count, on); },
            [&] {
              check(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, raw_.comm, stream.handle), "ncclAllReduce");
            }),
        rates(
            moved, [&](Stream& on) { ranks_.reduce_scatter_sum(data, share, on); },
            [&] {
              check(ncclReduceScatter(data, mine, share, ncclFloat32, ncclSum, raw_.comm, stream.handle),
                    "ncclReduceScatter");
            }),
        rates(
            moved, [&](Stream& on) { ranks_.all_gather(data, share * sizeof(float), on); },
            [&] { check(ncclAllGather(mine, data, share, ncclFloat32, raw_.comm, stream.handle), "ncclAllGather"); }));
  }

 private:
  /// The trainer's, on the communicator's own stream as a step calls it, and NCCL's, alternating after one of each.
  std::string rates(double moved, const std::function<void(Stream&)>& ours, const std::function<void()>& raw) {
    Stream& stream = device_.stream();
    const auto beside = [&] {
      ours(ranks_.beside(stream));
      ranks_.join(stream);
    };
    beside();
    raw();
    std::array<double, kRounds> our_ms, raw_ms;
    for (int round = 0; round < kRounds; ++round) {
      our_ms[static_cast<std::size_t>(round)] = ms_of_all(rendezvous_, stream, runs_, beside);
      raw_ms[static_cast<std::size_t>(round)] = ms_of_all(rendezvous_, stream, runs_, raw);
    }
    return fmt::format("{{\"ours_gb_s\": {:.3f}, \"nccl_gb_s\": {:.3f}, \"ours_ms\": {:.6f}}}",
                       1e-6 * moved / median(our_ms), 1e-6 * moved / median(raw_ms), median(our_ms));
  }

  Device& device_;
  Communicator& ranks_;
  Rendezvous& rendezvous_;
  Raw raw_;
  int runs_;
};

int run_rank(const LauncherInfo& launch, int runs, const std::vector<std::size_t>& sizes) {
  Rendezvous rendezvous(launch, {});
  try {
    Device device(Device::index_of(launch.local_rank), 0);
    Communicator ranks(device, launch, rendezvous);
    Collectives collectives(device, ranks, rendezvous, runs);
    std::byte* memory =
        device.allocate(*std::max_element(sizes.begin(), sizes.end()) << 20);  // zeros: sums stay finite
    std::string line = fmt::format("{{\"ranks\": \"{}\", \"mib\": {{", ranks.description());
    for (const std::size_t mib : sizes)
      line += fmt::format("{}\"{}\": {}", line.ends_with('{') ? "" : ", ", mib, collectives.measure(memory, mib << 20));
    if (launch.rank == 0) std::printf("%s}}\n", line.c_str());
    rendezvous.leave();
    return 0;
  } catch (const Failure& failure) {
    rendezvous.farewell(static_cast<int>(failure.code()), failure.what());
    throw;
  }
}

int run(const std::vector<std::string>& words) {
  const LauncherInfo launch = find_launcher([](const char* name) -> const char* { return std::getenv(name); });
  const int ranks = std::atoi(words[1].c_str());
  if (launch.world_size != ranks) return spawn_ranks(words, ranks, rank_starter());
  std::vector<std::size_t> sizes;
  for (std::size_t i = 3; i < words.size(); ++i) sizes.push_back(std::strtoull(words[i].c_str(), nullptr, 10));
  return run_rank(launch, std::atoi(words[2].c_str()), sizes);
}

}  // namespace
}  // namespace llmc

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "collectives RANKS RUNS MiB...\n");
    return 2;
  }
  try {
    return llmc::run({argv, argv + argc});
  } catch (const llmc::Failure& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return static_cast<int>(failure.code());
  }
}
