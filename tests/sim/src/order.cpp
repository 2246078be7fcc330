#include "order.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "report.h"
#include "shadow.h"

namespace sim {

void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

std::uint32_t Order::add_stream() {
  executed_.push_back(0);
  return static_cast<std::uint32_t>(executed_.size() - 1);
}

const Clock& Order::begin(std::uint32_t stream, const std::string& name, Clock clock) {
  clock.resize(executed_.size());
  after_all_ = clock == executed_;
  clock[stream] = ++executed_[stream];
  clock_ = std::move(clock);
  if (operations_.size() >= kOperations) report("more operations than the simulator can number; make the run shorter");
  current_ = static_cast<std::uint32_t>(operations_.size());
  operations_.push_back({stream, executed_[stream], intern(name)});
  return clock_;
}

bool Order::happened_before(std::uint32_t operation) const {
  const Operation& before = operations_[operation];
  return clock_[before.stream] >= before.number;
}

std::string Order::describe(std::uint32_t operation) const {
  return name(operation) + " (stream " + std::to_string(operations_[operation].stream) + ")";
}

std::uint32_t Order::intern(const std::string& name) {
  static std::unordered_map<std::string, std::uint32_t> numbers;
  const auto [at, added] = numbers.emplace(name, static_cast<std::uint32_t>(names_.size()));
  if (added) names_.push_back(name);
  return at->second;
}

Order& order() {
  static Order* const one = new Order;  // outlives every destructor that still uses the device
  return *one;
}

}  // namespace sim
