#include "math/cublaslt/trial.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "device/cuda/check.h"
#include "device/math.h"

namespace llmc {
namespace {

constexpr int kRounds = 5;
constexpr float kGain = 0.98f;    // a faster candidate must take less than this of the first one's time
constexpr float kRoundMs = 3.0f;  // a round of one candidate: well above the resolution of an event
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
float milliseconds(cudaStream_t stream, const std::function<bool()>& launch, int launches) {
  TimedEvent begin, end;
  begin.record(stream);
  for (int i = 0; i < launches; ++i)
    if (!launch()) return INFINITY;
  end.record(stream);
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

std::size_t worth_taking(const std::vector<float>& medians) {
  const auto best = static_cast<std::size_t>(std::min_element(medians.begin(), medians.end()) - medians.begin());
  return medians[best] < kGain * medians[0] ? best : 0;
}

}  // namespace llmc
