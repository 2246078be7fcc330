// Which operations of the device happen before which: vector clocks over streams.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sim {

/// For each stream, how many of its operations have happened before.
using Clock = std::vector<std::uint32_t>;

void join(Clock& into, const Clock& other);

/// A kernel, copy, product, ... that has run or is running. `number` counts those of its stream from 1.
struct Operation {
  std::uint32_t stream, number, name;
};

class Order {
 public:
  /// A new stream's index.
  std::uint32_t add_stream();

  /// The next operation of `stream` runs now, after all that `clock` knows. Returns the clock with it added.
  const Clock& begin(std::uint32_t stream, const std::string& name, Clock clock);

  /// The operation that runs now; 0 before the first.
  std::uint32_t current() const { return current_; }
  /// Whether all others that have run happened before the current one: then nothing needs to be looked up.
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

/// One for a process, as the device is.
Order& order();

}  // namespace sim
