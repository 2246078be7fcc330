#include "math/cublaslt/trial.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <utility>

#include "device/cuda/check.h"
#include "device/math.h"

namespace llmc {
namespace {

constexpr int kRounds = 5;
constexpr float kGain = 0.98f;    // a faster candidate must take less than this of the first one's time
constexpr float kRoundMs = 3.0f;  // a round of one candidate: well above the resolution of an event
constexpr double kTurnMs = 20;    // of one candidate, sustained: longer than a clock takes to follow the power
constexpr std::size_t kFinalists = 3;
constexpr double kMostLaunches = 20000;  // of a turn: more fill a stream's queue
constexpr std::size_t kPattern = 1 << 20;

/// A point of a stream with the time at which it was reached.
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

/// Of one launch; infinite where one fails.
float milliseconds(cudaStream_t stream, const std::function<bool()>& launch, int launches,
                   const std::function<void()>& meanwhile = {}) {
  TimedEvent begin, end;
  begin.record(stream);
  for (int i = 0; i < launches; ++i)
    if (!launch()) return INFINITY;
  end.record(stream);
  if (meanwhile) meanwhile();
  return end.milliseconds_since(begin) / static_cast<float>(launches);
}

float median(std::vector<float> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

Normals::Normals(Device& device) : device_(device), fp32_(kPattern), bf16_(kPattern) {
  std::mt19937 generator(1);
  std::normal_distribution<float> draw;
  for (float& v : fp32_) v = draw(generator);
  for (std::size_t i = 0; i < kPattern; ++i) bf16_[i] = from_float<bf16>(fp32_[i]);
}

void Normals::fill(std::byte* memory, std::size_t bytes, DType dtype) {
  const void* const pattern = dtype == DType::bf16 ? static_cast<const void*>(bf16_.data()) : fp32_.data();
  const std::size_t most = kPattern * static_cast<std::size_t>(bytes_of(dtype, 1));
  for (std::size_t at = 0; at < bytes; at += most) device_.copy_in(memory + at, pattern, std::min(most, bytes - at));
}

std::vector<float> median_times(cudaStream_t stream, std::size_t count,
                                const std::function<bool(std::size_t)>& launch) {
  const auto time = [&](std::size_t i, int launches) {
    return milliseconds(stream, [&] { return launch(i); }, launches);
  };
  time(0, 1);  // what is loaded at first use is no part of a time
  const float guess = time(0, 2);
  const int launches = guess > 0 ? std::clamp(static_cast<int>(kRoundMs / guess), 1, 100) : 1;
  for (std::size_t i = 0; i < count; ++i) launch(i);
  std::vector<std::vector<float>> times(count);
  for (int round = 0; round < kRounds; ++round)
    for (std::size_t i = 0; i < count; ++i) times[i].push_back(time(i, launches));
  std::vector<float> medians;
  for (const auto& of_one : times) medians.push_back(median(of_one));
  return medians;
}

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

std::vector<float> sustained_times(cudaStream_t stream, const std::vector<std::size_t>& chosen,
                                   const std::vector<float>& burst_ms, double least_ms,
                                   const std::function<bool(std::size_t)>& launch,
                                   const std::function<void(std::size_t)>& meanwhile) {
  const double turn_ms = std::min(kTurnMs, least_ms);
  const auto launches_of = [&](std::size_t i) {
    return static_cast<int>(std::clamp(std::ceil(turn_ms / std::max<double>(burst_ms[i], 1e-3)), 1.0, kMostLaunches));
  };
  const auto turn = [&](std::size_t i) {
    return milliseconds(stream, [&] { return launch(i); }, launches_of(i), [&] { meanwhile(i); });
  };
  turn(chosen.front());
  std::vector<double> total(chosen.size()), launches(chosen.size());
  while (*std::min_element(total.begin(), total.end()) < least_ms)
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const int n = launches_of(chosen[i]);
      total[i] += static_cast<double>(turn(chosen[i])) * n;
      launches[i] += n;
    }
  std::vector<float> means;
  for (std::size_t i = 0; i < chosen.size(); ++i) means.push_back(static_cast<float>(total[i] / launches[i]));
  return means;
}

Times times_of(cudaStream_t stream, std::size_t count, double sustained_ms, const Card& card,
               const std::function<bool(std::size_t)>& launch) {
  Times times{median_times(stream, count, launch), std::vector<std::optional<CardState>>(count)};
  if (sustained_ms <= 0 || std::isinf(times.ms.front())) return times;
  const std::vector<float> burst =
      std::exchange(times.ms, std::vector<float>(count, std::numeric_limits<float>::infinity()));
  const std::vector<std::size_t> chosen = finalists(burst);
  const std::vector<float> sustained = sustained_times(stream, chosen, burst, sustained_ms, launch,
                                                       [&](std::size_t i) { times.cards[i] = card.state(); });
  for (std::size_t i = 0; i < chosen.size(); ++i) times.ms[chosen[i]] = sustained[i];
  return times;
}

std::size_t worth_taking(const std::vector<float>& medians) {
  const auto best = static_cast<std::size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin());
  return medians[best] < kGain * medians[0] ? best : 0;
}

}  // namespace llmc
