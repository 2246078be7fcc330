// Test data and device memory for the GPU tests.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

#include "device/device.h"
#include "device/math.h"

namespace llmc {

/// Values that bf16 represents exactly, so that reference and GPU see the same.
inline std::vector<float> normal(std::size_t count, unsigned seed, float std = 1.0f) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> draw(0.0f, std);
  std::vector<float> values(count);
  for (float& value : values) value = to_float(from_float<bf16>(draw(generator)));
  return values;
}

/// Device memory handed out piece by piece, each aligned to 256 bytes.
class Pieces {
 public:
  Pieces(Device& device, std::size_t bytes) : device_(device), next_(device.allocate(bytes)), end_(next_ + bytes) {}

  std::byte* take(std::size_t bytes) {
    std::byte* piece = next_;
    next_ += (bytes + 255) / 256 * 256;
    if (next_ > end_) throw std::runtime_error("the test's arena is too small");
    return piece;
  }

  template <class T = float>
  T* put(const std::vector<T>& values) {
    std::byte* piece = take(values.size() * sizeof(T));
    device_.copy_in(piece, values.data(), values.size() * sizeof(T));
    return reinterpret_cast<T*>(piece);
  }

  template <class T>
  T* put_as(const std::vector<float>& values) {
    if constexpr (sizeof(T) == sizeof(float)) {
      return put(values);
    } else {
      std::vector<T> narrow(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) narrow[i] = from_float<T>(values[i]);
      return put(narrow);
    }
  }

  bf16* put_bf16(const std::vector<float>& values) { return put_as<bf16>(values); }

  std::vector<float> get(const float* from, std::size_t count) {
    std::vector<float> values(count);
    device_.copy_out(values.data(), from, count * sizeof(float));
    device_.synchronize();
    return values;
  }

  template <class T>
  std::vector<float> get(const T* from, std::size_t count) {
    std::vector<T> narrow(count);
    device_.copy_out(narrow.data(), from, count * sizeof(T));
    device_.synchronize();
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = to_float(narrow[i]);
    return values;
  }

 private:
  Device& device_;
  std::byte* next_;
  std::byte* end_;
};

/// Norm of the difference over the norm of the expected values.
class RelativeError {
 public:
  void add(double got, double expected) {
    difference_ += (got - expected) * (got - expected);
    expected_ += expected * expected;
  }
  double value() const { return std::sqrt(difference_ / expected_); }

 private:
  double difference_ = 0, expected_ = 0;
};

}  // namespace llmc
