// How `trainer tune` times candidates: without a pause of the device, in which its clock would recover.
#include "math/cublaslt/trial.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "device/fp8.h"
#include "device_memory.h"
#include "stream.h"

namespace llmc {
namespace {

/// Candidates of so many ms a launch, by the simulated device's clock. A negative one fails.
class Candidates {
 public:
  explicit Candidates(std::vector<double> ms) : ms_(std::move(ms)) {}

  Times times(double sustained_ms) {
    return times_of(stream_.handle, ms_.size(), sustained_ms, Card(""), [this](std::size_t i) {
      CUstream_st& stream = sim::stream_of(stream_.handle);
      const auto is_operation = [](const sim::Work& work) { return work.run != nullptr; };
      pauses_ += std::none_of(stream.queue.begin(), stream.queue.end(), is_operation);
      if (ms_[i] < 0) return false;
      sim::enqueue(stream, "candidate", [ms = ms_[i]] { sim::spend(ms); });
      busy_[i] += ms_[i];
      return true;
    });
  }

  int pauses() const { return pauses_; }  // launches that met a device without work
  double busy(std::size_t i) const { return busy_[i]; }

 private:
  std::vector<double> ms_;
  std::vector<double> busy_ = std::vector<double>(ms_.size());
  TestStream stream_;
  int pauses_ = 0;
};

constexpr int kPausesAtTheBegin = 2;  // before the first launch, and before bursts of as many as a guess says

TEST(Trial, TheDeviceHasWorkWheneverMoreIsQueued) {
  for (const double sustained_ms : {0.0, 50.0}) {
    Candidates candidates({0.5, 0.25, 1.0, 2.0, 0.75});
    candidates.times(sustained_ms);
    EXPECT_EQ(candidates.pauses(), kPausesAtTheBegin) << sustained_ms;
  }
}

TEST(Trial, TimesAreThoseOfALaunch) {
  const std::vector<double> ms = {0.5, 0.25, 1.0, 2.0, 0.75};
  const Times bursts = Candidates(ms).times(0);
  ASSERT_EQ(bursts.ms.size(), ms.size());
  for (std::size_t i = 0; i < ms.size(); ++i) EXPECT_NEAR(bursts.ms[i], ms[i] + 0.001, 1e-4) << i;
  Candidates sustained(ms);
  const Times times = sustained.times(50);
  for (const std::size_t i : {0, 1, 4}) {  // the first is one of the fastest three
    EXPECT_NEAR(times.ms[i], ms[i] + 0.001, 1e-4) << i;
    EXPECT_GT(sustained.busy(i), 50) << i;
  }
  for (const std::size_t i : {2, 3}) EXPECT_TRUE(std::isinf(times.ms[i])) << i;
}

TEST(Trial, WhatFailsIsOutOfTheRunning) {
  for (const double sustained_ms : {0.0, 50.0}) {
    const Times times = Candidates({0.5, -1, 0.25}).times(sustained_ms);
    EXPECT_NEAR(times.ms[0], 0.501, 1e-4);
    EXPECT_TRUE(std::isinf(times.ms[1]));
    EXPECT_EQ(worth_taking(times.ms), 2u);
    EXPECT_TRUE(std::isinf(Candidates({-1, 0.25}).times(sustained_ms).ms[0]));
  }
}

/// Root mean square of what a matrix of this type is filled with.
template <class Code>
double rms_of(DType dtype) {
  Device device(0, 0);
  Normals normals(device);
  constexpr std::size_t kCount = 3 << 19;  // more than the pattern
  std::byte* const memory = device.allocate(kCount);
  normals.fill(memory, kCount, dtype);
  std::vector<Code> codes(kCount);
  device.copy_out(codes.data(), memory, kCount);
  device.synchronize();
  double squares = 0;
  for (const Code code : codes) squares += std::pow(to_float(code), 2);
  return std::sqrt(squares / kCount);
}

/// A GPU's power, and so its speed, depends on the bits of its operands.
TEST(Trial, CodesAreThoseOfScaledRows) {
  EXPECT_NEAR(rms_of<e4m3>(DType::e4m3), 112, 1);      // a quarter of 448
  EXPECT_NEAR(rms_of<e5m2>(DType::e5m2), 14336, 128);  // a quarter of 57344
}

}  // namespace
}  // namespace llmc
