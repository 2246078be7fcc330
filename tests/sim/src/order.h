// Happens-before order of the device's operations: vector clocks over streams.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sim {

/// For each stream, the number of its operations that happened before.
using Clock = std::vector<std::uint32_t>;

void join(Clock& into, const Clock& other);

/// A kernel, copy, GEMM, ... that has run or is running. `number` counts within its stream from 1.
struct Operation {
  std::uint32_t stream, number, name;
};

class Order {
 public:
  /// A new stream's index.
  std::uint32_t add_stream();

  /// Starts the next operation of `stream`, ordered after everything in `clock`. Returns the clock including it.
  const Clock& begin(std::uint32_t stream, const std::string& name, Clock clock);

  /// The running operation; 0 before the first.
  std::uint32_t current() const { return current_; }
  /// Returns whether all other operations happened before the current one: then no lookup is needed.
  bool after_all() const { return after_all_; }
  bool happened_before(std::uint32_t operation) const;

  /// "rms_norm_forward (stream 1)"
  std::string describe(std::uint32_t operation) const;
  const std::string& name(std::uint32_t operation) const { return names_[operations_[operation].name]; }

 private:
  std::uint32_t intern(const std::string& name);

  std::vector<Operation> operations_ = {{}};
  std::vector<std::string> names_ = {"nothing"};
  Clock executed_, clock_;
  std::uint32_t current_ = 0;
  bool after_all_ = true;
};

/// One per process, like the device.
Order& order();

}  // namespace sim
