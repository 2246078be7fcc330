// Checks required of every communicator, on all ranks that started this program: each operation with sizes 0 and 1, odd
// ones and ones larger than every buffer, at addresses that are no multiple of 16, twice with equal bits.
//
// `conformance` runs the checks; `conformance MIB` times the collectives of a step with gradients of that size;
// `conformance KIND:TYPE:BYTES...` checks these, in the notation of a plan. `conformance --fault HOW` ends with 170:
// the last rank skips a collective, sends another size, or sleeps (skip, size, sleep).
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <type_traits>
#include <vector>

#include "comm/collective_log.h"
#include "comm/collectives.h"
#include "comm/launcher.h"
#include "comm/rendezvous.h"
#include "device/device.h"
#include "device/math.h"
#include "error.h"

namespace llmc {
namespace {

constexpr std::size_t kGuard = 64;  // guard elements around the data, which must not change

class Conformance {
 public:
  Conformance(Device& device, Communicator& ranks, Rendezvous& rendezvous)
      : device_(device), ranks_(ranks), rendezvous_(rendezvous), n_(static_cast<std::size_t>(ranks.world_size())) {}

  int run() {
    const std::vector<std::size_t> counts = {0, 1, 2, 3, 7, 64, 1000, 4095, 4096, 4097, 20001, 1300001};
    for (const std::size_t count : counts) {
      for (const std::size_t offset : {0, 1}) {
        all_reduce<float>(count, offset);
        all_reduce<double>(count, offset);
        largest(count, offset);
        reduce_scatter(count / n_, offset);
        reduce_bf16(count / n_, offset, true);
        reduce_bf16(count / n_, offset, false);
        all_gather(count, offset);
        all_gather_from_elsewhere(count, offset);
        for (int root = 0; root < ranks_.world_size(); ++root) broadcast(count, offset, root);
      }
    }
    return wrong_;
  }

  /// Checks collectives of a plan: arguments such as "reduce_scatter:f32:4096", with a rank's bytes.
  int run(std::span<char*> words) {
    for (const std::string word : words) {
      const std::string kind = word.substr(0, word.rfind(':'));
      const std::size_t bytes = std::stoull(word.substr(word.rfind(':') + 1));
      if (kind == "all_reduce:f32")
        all_reduce<float>(bytes / sizeof(float), 0);
      else if (kind == "all_reduce:f64")
        all_reduce<double>(bytes / sizeof(double), 0), largest(bytes / sizeof(double), 0);
      else if (kind == "reduce_scatter:f32")
        reduce_scatter(bytes / sizeof(float), 0);
      else if (kind == "reduce_scatter:bf16")
        reduce_bf16(bytes / sizeof(bf16), 0, true);
      else if (kind == "all_gather:byte")
        all_gather(bytes, 0), all_gather_from_elsewhere(bytes, 0);
      else
        check(false, "collective, of which nothing is known here: " + word);
    }
    return wrong_;
  }

  /// Provokes an end of all ranks with 170 and a table: one rank skips a collective, sends another size, or sleeps.
  void fail(const std::string& how) {
    const bool fails = ranks_.rank() == ranks_.world_size() - 1;
    auto* data = reinterpret_cast<float*>(device_.allocate(4096));
    rendezvous_.at(3, "training");
    rendezvous_.barrier();
    if (fails && how == "sleep") std::this_thread::sleep_for(std::chrono::hours(1));
    if (!(fails && how == "skip")) ranks_.all_reduce_sum(data, fails && how == "size" ? 63 : 64, device_.stream());
    ranks_.all_gather(data, 256 / n_, device_.stream());
    const WaitForRanks waits(ranks_.collectives());
    device_.synchronize();
  }

  void measure(std::size_t bytes) {
    const std::size_t share = bytes / sizeof(float) / n_;
    auto* data = reinterpret_cast<float*>(device_.allocate(n_ * share * sizeof(float)));
    const std::vector<float> values(n_ * share, 1e-3f);  // reading memory that was never written is faster
    device_.copy_in(data, values.data(), values.size() * sizeof(float));
    time("reduce_scatter_sum", bytes, [&] { ranks_.reduce_scatter_sum(data, share, device_.stream()); });
    time("all_gather", bytes, [&] { ranks_.all_gather(data, share * sizeof(float), device_.stream()); });
    time("all_reduce_sum", bytes, [&] { ranks_.all_reduce_sum(data, n_ * share, device_.stream()); });
    time("broadcast", bytes, [&] { ranks_.broadcast(data, bytes, 0, device_.stream()); });
    time("all_reduce_sum", 32, [&] { ranks_.all_reduce_sum(data, 8, device_.stream()); });
    std::vector<float> to(n_ * share);
    time("memcpy", bytes, [&] { std::memcpy(to.data(), values.data(), values.size() * sizeof(float)); });
  }

 private:
  /// Element i of a rank: values of varied magnitude, so that another order of addition changes the bits.
  template <typename T>
  static T value(std::size_t rank, std::size_t i) {
    std::uint64_t bits = (i + 1) * 0x9e3779b97f4a7c15u + (rank + 1) * 0xc2b2ae3d27d4eb4fu;
    bits ^= bits >> 29;
    bits *= 0xbf58476d1ce4e5b9u;
    bits ^= bits >> 32;
    return std::ldexp(static_cast<T>(static_cast<double>(bits >> 11) / (1ull << 53) - 0.5),
                      static_cast<int>(bits % 24) - 12);
  }

  /// The sum in the order 0, 1, 2, ...
  template <typename T>
  T sum(std::size_t i) const {
    T result = value<T>(0, i);
    for (std::size_t rank = 1; rank < n_; ++rank) result += value<T>(rank, i);
    return result;
  }

  void check(bool right, const std::string& what, std::size_t element = 0) {
    if (right) return;
    if (++wrong_ <= 10) fmt::print(stderr, "rank {}: wrong {}, element {}\n", ranks_.rank(), what, element);
  }

  /// Runs an operation twice on `mine` at `offset` and returns the result. Checks the guard elements, equal results of
  /// both runs and, if `everywhere`, equal results on all ranks.
  template <typename T>
  std::vector<T> operate(const std::string& what, const std::vector<T>& mine, std::size_t offset, bool everywhere,
                         const std::function<void(T*)>& operation) {
    const std::size_t size = mine.size() + 2 * kGuard;
    if (size * sizeof(T) > capacity_) {
      capacity_ = 2 * size * sizeof(T);
      memory_ = ranks_.allocate(device_, capacity_);
    }
    T* data = reinterpret_cast<T*>(memory_) + kGuard + offset;
    const std::string surroundings = what + ": what stands around it";
    std::vector<T> results[2], guarded(mine.size() + 2 * (kGuard - 1), static_cast<T>(77));
    std::copy(mine.begin(), mine.end(), guarded.begin() + (kGuard - 1));
    for (std::vector<T>& result : results) {
      device_.copy_in(data - (kGuard - 1), guarded.data(), guarded.size() * sizeof(T));
      operation(data);
      std::vector<T> back(guarded.size());
      device_.copy_out(back.data(), data - (kGuard - 1), back.size() * sizeof(T));
      device_.synchronize();
      for (std::size_t i = 0; i < kGuard - 1; ++i)
        check(back[i] == static_cast<T>(77) && back[back.size() - 1 - i] == static_cast<T>(77), surroundings);
      result.assign(back.begin() + (kGuard - 1), back.end() - (kGuard - 1));
    }
    const auto bytes = [](const std::vector<T>& values) {
      return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
    };
    if (everywhere) {
      check(bytes(results[0]) == bytes(results[1]), what + ": other bits the second time");
      const std::string hash = std::to_string(std::hash<std::string>()(bytes(results[0])));
      check(rendezvous_.broadcast(hash, 0) == hash, what + ": other bits than rank 0's");
    }
    return results[0];
  }

  template <typename T>
  void all_reduce(std::size_t count, std::size_t offset) {
    const std::string what = fmt::format("all_reduce_sum of {} {}s", count, sizeof(T) == 4 ? "float" : "double");
    std::vector<T> mine(count);
    for (std::size_t i = 0; i < count; ++i) mine[i] = value<T>(me(), i);
    const std::vector<T> result =
        operate<T>(what, mine, offset, true, [&](T* data) { ranks_.all_reduce_sum(data, count, device_.stream()); });
    for (std::size_t i = 0; i < count; ++i) check(is_sum(result[i], i), what, i);
  }

  void largest(std::size_t count, std::size_t offset) {
    const std::string what = fmt::format("all_reduce_max of {} doubles", count);
    std::vector<double> mine(count);
    for (std::size_t i = 0; i < count; ++i) mine[i] = value<double>(me(), i);
    const std::vector<double> result = operate<double>(
        what, mine, offset, true, [&](double* data) { ranks_.all_reduce_max(data, count, device_.stream()); });
    for (std::size_t i = 0; i < count; ++i) {
      double most = value<double>(0, i);
      for (std::size_t rank = 1; rank < n_; ++rank) most = std::max(most, value<double>(rank, i));
      check(result[i] == most, what, i);
    }
  }

  void reduce_scatter(std::size_t share, std::size_t offset) {
    const std::string what = fmt::format("reduce_scatter_sum of shares of {}", share);
    std::vector<float> mine(share * n_);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value<float>(me(), i);
    const std::vector<float> result = operate<float>(
        what, mine, offset, false, [&](float* data) { ranks_.reduce_scatter_sum(data, share, device_.stream()); });
    for (std::size_t i = me() * share; i < (me() + 1) * share; ++i) check(is_sum(result[i], i), what, i);
  }

  void reduce_bf16(std::size_t share, std::size_t offset, bool scatter) {
    const std::string what =
        fmt::format("{} of shares of {} bf16s", scatter ? "reduce_scatter_sum" : "all_reduce_sum", share);
    std::vector<unsigned short> mine(share * n_);
    for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = from_float<bf16>(value<float>(me(), i)).bits;
    const auto result = operate<unsigned short>(what, mine, offset, !scatter, [&](unsigned short* data) {
      auto* values = reinterpret_cast<bf16*>(data);
      scatter ? ranks_.reduce_scatter_sum(values, share, device_.stream())
              : ranks_.all_reduce_sum(values, mine.size(), device_.stream());
    });
    for (std::size_t i = scatter ? me() * share : 0; i < (scatter ? (me() + 1) * share : mine.size()); ++i) {
      float exact = 0, size = 0;
      for (std::size_t rank = 0; rank < n_; ++rank) {
        const float summand = to_float(from_float<bf16>(value<float>(rank, i)));
        exact += summand, size += std::fabs(summand);
      }
      // Half a unit in the last place if the sum is rounded once, one more rounding per summand for bf16.
      const float bound = device_.runs_ahead() ? static_cast<float>(n_) * size : std::fabs(exact);
      check(std::fabs(to_float(bf16{result[i]}) - exact) <= bound / 256, what, i);
    }
  }

  void all_gather(std::size_t share, std::size_t offset) {
    const std::string what = fmt::format("all_gather of shares of {}", share);
    using Bytes = std::vector<unsigned char>;
    Bytes mine(share * n_, 5);
    for (std::size_t i = me() * share; i < (me() + 1) * share; ++i) mine[i] = byte(me(), i);
    const Bytes result = operate<unsigned char>(
        what, mine, offset, true, [&](unsigned char* data) { ranks_.all_gather(data, share, device_.stream()); });
    for (std::size_t i = 0; i < result.size(); ++i) check(result[i] == byte(i / share, i), what, i);
  }

  /// On the communicator's own stream, which the device's stream waits for. Does nothing with one rank.
  void all_gather_from_elsewhere(std::size_t share, std::size_t offset) {
    if (n_ == 1) return;
    const std::string what = fmt::format("all_gather of shares of {} from elsewhere", share);
    using Bytes = std::vector<unsigned char>;
    Bytes own(share);
    for (std::size_t i = 0; i < share; ++i) own[i] = byte(me(), i);
    std::byte* source = device_.allocate(share + 1) + offset;
    device_.copy_in(source, own.data(), share);
    const Bytes result = operate<unsigned char>(what, Bytes(share * n_, 5), offset, true, [&](unsigned char* data) {
      ranks_.all_gather(source, data, share, ranks_.beside(device_.stream()));
      ranks_.mark(1);
      ranks_.wait(1, device_.stream());
    });
    for (std::size_t i = 0; i < result.size(); ++i) check(result[i] == byte(i / share, i % share), what, i);
  }

  void broadcast(std::size_t bytes, std::size_t offset, int root) {
    const std::string what = fmt::format("broadcast of {} bytes from {}", bytes, root);
    std::vector<unsigned char> mine(bytes);
    for (std::size_t i = 0; i < bytes; ++i) mine[i] = byte(me(), i);
    const auto result = operate<unsigned char>(
        what, mine, offset, true, [&](unsigned char* data) { ranks_.broadcast(data, bytes, root, device_.stream()); });
    for (std::size_t i = 0; i < bytes; ++i) check(result[i] == byte(static_cast<std::size_t>(root), i), what, i);
  }

  static unsigned char byte(std::size_t rank, std::size_t i) { return static_cast<unsigned char>(i * 7 + rank * 31); }

  /// NCCL uses its own order of addition.
  template <typename T>
  bool is_sum(T result, std::size_t i) const {
    if (!device_.runs_ahead()) return result == sum<T>(i);
    T size = 0;
    for (std::size_t rank = 0; rank < n_; ++rank) size += std::fabs(value<T>(rank, i));
    return std::fabs(result - sum<T>(i)) <= static_cast<T>(n_) * std::numeric_limits<T>::epsilon() * size;
  }

  void time(const char* what, std::size_t bytes, const std::function<void()>& operation) {
    double best = 1e9;
    for (int turn = 0; turn < 20; ++turn) {
      rendezvous_.barrier();
      const auto begin = std::chrono::steady_clock::now();
      operation();
      device_.synchronize();
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
    if (ranks_.rank() == 0)
      fmt::print("{:20} {:>10} bytes  {:9.1f} us  {:7.2f} GB/s\n", what, bytes, best * 1e6,
                 static_cast<double>(bytes) / best / 1e9);
  }

  std::size_t me() const { return static_cast<std::size_t>(ranks_.rank()); }

  Device& device_;
  Communicator& ranks_;
  Rendezvous& rendezvous_;
  const std::size_t n_;
  std::byte* memory_ = nullptr;
  std::size_t capacity_ = 0;
  int wrong_ = 0;
};

int run(int argc, char** argv) {
  const LauncherInfo launch = find_launcher([](const char* name) { return std::getenv(name); });
  Rendezvous::Limits limits;
  limits.beat = std::chrono::milliseconds(200);
  const std::string word = argc > 1 ? argv[1] : "";
  if (word == "--fault") limits.collective = std::chrono::seconds(2);
  Rendezvous rendezvous(launch, limits);
  try {
    Device device(Device::index_of(launch.local_rank), std::getenv("OMP_NUM_THREADS") ? 0 : 1);
    Communicator ranks(device, launch, rendezvous);
    Conformance conformance(device, ranks, rendezvous);
    int wrong = 0;
    if (word == "--fault")
      conformance.fail(argc > 2 ? argv[2] : "");
    else if (word.find(':') != std::string::npos)
      wrong = conformance.run(std::span(argv + 1, static_cast<std::size_t>(argc - 1)));
    else if (argc > 1)
      conformance.measure(std::strtoull(argv[1], nullptr, 10) << 20);
    else
      wrong = conformance.run();
    if (launch.rank == 0) fmt::print("{}, by {}\n", ranks.description(), launch.by);
    rendezvous.leave();
    return wrong == 0 ? 0 : 1;
  } catch (const Failure& failure) {
    rendezvous.farewell(static_cast<int>(failure.code()), failure.what());
    throw;
  }
}

}  // namespace
}  // namespace llmc

int main(int argc, char** argv) try { return llmc::run(argc, argv); } catch (const llmc::Failure& failure) {
  fmt::print(stderr, "error: {}\n", failure.what());
  return static_cast<int>(failure.code());
}
