#include "math/cublaslt/trial.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <random>
#include <utility>

#include "device/cuda/check.h"
#include "device/fp8.h"
#include "device/math.h"

namespace llmc {
namespace {

constexpr int kRounds = 5;
constexpr float kGain = 0.98f;    // a faster candidate must take less than this of the first one's time
constexpr float kRoundMs = 3.0f;  // a burst of one candidate: well above the resolution of an event
constexpr double kTurnMs = 20;    // of one candidate, sustained: longer than a clock takes to follow the power
constexpr std::size_t kFinalists = 3;
constexpr double kMostLaunches = 20000;  // per turn: more fill a stream's queue
constexpr std::size_t kPattern = 1 << 20;

/// A CUDA event with the time at which it was reached.
class TimedEvent {
 public:
  TimedEvent() { check(cudaEventCreate(&handle_), "cudaEventCreate"); }
  ~TimedEvent() { cudaEventDestroy(handle_); }
  TimedEvent(const TimedEvent&) = delete;
  TimedEvent& operator=(const TimedEvent&) = delete;
  void record(cudaStream_t stream) { check(cudaEventRecord(handle_, stream), "cudaEventRecord"); }
  float milliseconds_since(const TimedEvent& before) const {
    check(cudaEventSynchronize(handle_), "cudaEventSynchronize");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, before.handle_, handle_), "cudaEventElapsedTime");
    return ms;
  }

 private:
  cudaEvent_t handle_ = nullptr;
};

/// Launches of one candidate that are timed together.
struct Turn {
  std::size_t candidate;
  int launches;
};

/// Turns on a stream. Each is queued before the host waits for the previous one, so that the device is never idle
/// between them: in a pause its clock recovers from the power limit.
class Turns {
 public:
  using Launch = std::function<bool(std::size_t)>;
  using Done = std::function<void(const Turn&, float)>;  // with ms of one launch; infinite where one failed

  Turns(cudaStream_t stream, const Launch& launch) : stream_(stream), launch_(launch) {}

  /// Returns when the previous turn is done, while this one runs.
  void run(const Turn& turn, Done done) {
    auto queued = std::make_unique<Queued>(turn, std::move(done));
    queued->begin.record(stream_);
    for (int i = 0; i < turn.launches && !queued->failed; ++i) queued->failed = !launch_(turn.candidate);
    queued->end.record(stream_);
    wait();
    last_ = std::move(queued);
  }

  /// Returns when the last turn is done.
  void wait() {
    const auto last = std::move(last_);
    if (!last) return;
    const float ms = last->end.milliseconds_since(last->begin) / static_cast<float>(last->turn.launches);
    last->done(last->turn, last->failed ? INFINITY : ms);
  }

 private:
  struct Queued {
    Queued(const Turn& t, Done d) : turn(t), done(std::move(d)) {}
    Turn turn;
    Done done;
    TimedEvent begin, end;
    bool failed = false;
  };

  cudaStream_t stream_;
  const Launch& launch_;
  std::unique_ptr<Queued> last_;
};

void nothing(const Turn&, float) {}

float median(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// A turn of about `ms`.
Turn turn_of(std::size_t candidate, double ms, float launch_ms) {
  const double launches = std::ceil(ms / std::max<double>(launch_ms, 1e-3));
  return {candidate, static_cast<int>(std::clamp(launches, 1.0, kMostLaunches))};
}

/// ms of a launch of the first one, when what is loaded at first use is loaded.
float guessed_time(Turns& turns) {
  float guess = 0;
  turns.run({0, 1}, nothing);
  turns.run({0, 2}, [&](const Turn&, float ms) { guess = ms; });
  turns.wait();
  return guess;
}

/// Queues five rounds over all candidates, so that a change of the device's clock meets all, and keeps ms of a launch
/// in `bursts`, by candidate.
void run_bursts(Turns& turns, float guess, std::vector<std::vector<float>>& bursts) {
  const int launches = guess > 0 ? std::clamp(static_cast<int>(kRoundMs / guess), 1, 100) : 1;
  for (std::size_t i = 0; i < bursts.size(); ++i) turns.run({i, 1}, nothing);
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < bursts.size(); ++i)
      turns.run({i, launches}, [&bursts](const Turn& turn, float ms) { bursts[turn.candidate].push_back(ms); });
}

/// The first of these, and the fastest three: what is worth a longer look. Ascending.
std::vector<std::size_t> finalists(const std::vector<float>& medians) {
  std::vector<std::size_t> order(medians.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return medians[a] < medians[b]; });
  order.resize(std::min(order.size(), kFinalists));
  std::erase_if(order, [&](std::size_t i) { return i != 0 && std::isinf(medians[i]); });
  if (std::find(order.begin(), order.end(), std::size_t{0}) == order.end()) order.push_back(0);
  std::sort(order.begin(), order.end());
  return order;
}

/// ms of a launch at the clock that the power limit allows, infinite but for `chosen`: these take turns until each has
/// run for `least_ms` or longer. `burst_ms`: of all. `meanwhile(i)` is called while i runs.
std::vector<float> sustained_times(Turns& turns, const std::vector<std::size_t>& chosen,
                                   const std::vector<float>& burst_ms, double least_ms,
                                   const std::function<void(std::size_t)>& meanwhile) {
  std::vector<double> total(burst_ms.size()), launches(burst_ms.size());
  const auto done = [&](const Turn& turn, float ms) {
    total[turn.candidate] += static_cast<double>(ms) * turn.launches;
    launches[turn.candidate] += turn.launches;
  };
  while (std::ranges::any_of(chosen, [&](std::size_t i) { return total[i] < least_ms; }))
    for (const std::size_t i : chosen) {
      turns.run(turn_of(i, std::min(kTurnMs, least_ms), burst_ms[i]), done);
      meanwhile(i);
    }
  turns.wait();
  std::vector<float> means(burst_ms.size(), INFINITY);
  for (const std::size_t i : chosen) means[i] = static_cast<float>(total[i] / launches[i]);
  return means;
}

}  // namespace

Normals::Normals(Device& device)
    : device_(device), fp32_(kPattern), bf16_(kPattern), fp16_(kPattern), e4m3_(kPattern), e5m2_(kPattern) {
  std::mt19937 generator(1);
  std::normal_distribution<float> draw;
  for (float& v : fp32_) v = draw(generator);
  for (std::size_t i = 0; i < kPattern; ++i) bf16_[i] = from_float<bf16>(fp32_[i]);
  for (std::size_t i = 0; i < kPattern; ++i) fp16_[i] = from_float<fp16>(fp32_[i]);
  // The largest of a row of a few thousand is about 4 standard deviations.
  for (std::size_t i = 0; i < kPattern; ++i) {
    e4m3_[i] = from_float<e4m3>(kLargestE4m3 / 4 * fp32_[i]);
    e5m2_[i] = from_float<e5m2>(kLargestE5m2 / 4 * fp32_[i]);
  }
}

void Normals::fill(std::byte* memory, std::size_t bytes, DType dtype) {
  const void* const pattern = dtype == DType::bf16   ? static_cast<const void*>(bf16_.data())
                              : dtype == DType::f16  ? static_cast<const void*>(fp16_.data())
                              : dtype == DType::e4m3 ? static_cast<const void*>(e4m3_.data())
                              : dtype == DType::e5m2 ? static_cast<const void*>(e5m2_.data())
                                                     : fp32_.data();
  const std::size_t most = kPattern * static_cast<std::size_t>(bytes_of(dtype, 1));
  for (std::size_t at = 0; at < bytes; at += most) device_.copy_in(memory + at, pattern, std::min(most, bytes - at));
}

Times times_of(cudaStream_t stream, std::size_t count, double sustained_ms, const Card& card,
               const std::function<bool(std::size_t)>& launch) {
  Turns turns(stream, launch);
  const float guess = guessed_time(turns);
  std::vector<std::vector<float>> bursts(count);
  run_bursts(turns, guess, bursts);
  // Not counted: what the device does while the finalists are chosen.
  if (sustained_ms > 0)
    turns.run(turn_of(0, std::min(kTurnMs, sustained_ms), guess), nothing);
  else
    turns.wait();

  Times times{{}, std::vector<std::optional<CardState>>(count)};
  for (const auto& of_one : bursts) times.ms.push_back(median(of_one));
  if (sustained_ms <= 0 || std::isinf(times.ms.front())) {
    turns.wait();
    return times;
  }
  times.ms = sustained_times(turns, finalists(times.ms), times.ms, sustained_ms,
                             [&](std::size_t i) { times.cards[i] = card.state(); });
  return times;
}

std::size_t worth_taking(const std::vector<float>& medians) {
  const auto best = static_cast<std::size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin());
  return medians[best] < kGain * medians[0] ? best : 0;
}

}  // namespace llmc
