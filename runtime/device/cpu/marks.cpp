#include <chrono>
#include <vector>

#include "device/timeline.h"

namespace llmc {

using Clock = std::chrono::steady_clock;

struct Marks::Impl {
  std::vector<Clock::time_point> marks;
};

Marks::Marks() : impl_(new Impl()) {}
Marks::~Marks() = default;

std::size_t Marks::set(Stream&) {
  impl_->marks.push_back(Clock::now());
  return impl_->marks.size() - 1;
}

double Marks::seconds(std::size_t mark) const {
  return std::chrono::duration<double>(impl_->marks.at(mark) - impl_->marks.front()).count();
}

}  // namespace llmc
