// One lock around every call of the stand-in libraries: the device runs only while it is called.
#pragma once

#include <mutex>

namespace sim {

class Guard {
 public:
  Guard() : lock_(mutex()) {}

 private:
  static std::recursive_mutex& mutex() {
    static std::recursive_mutex* const one = new std::recursive_mutex;
    return *one;
  }
  std::lock_guard<std::recursive_mutex> lock_;
};

}  // namespace sim
