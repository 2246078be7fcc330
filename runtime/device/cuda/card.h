// Reads the GPU's clocks and state from NVML: a timing means little without its clock.
#pragma once

#include <optional>
#include <string>

namespace llmc {

struct CardState {
  int sm_mhz = 0;
  double watts = 0;
  std::string throttled;  // "power cap, thermal slowdown": what holds the clock back; empty: nothing
};

/// Loads NVML if the driver has it; without it there are no states.
class Card {
 public:
  /// `identity`: Device::identity(), 32 hexadecimal digits.
  explicit Card(const std::string& identity);
  ~Card();
  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  std::optional<CardState> state() const;

 private:
  void* library_ = nullptr;
  void* device_ = nullptr;  // null: none
};

}  // namespace llmc
