#include "device/cpu/required_threads.h"

#include <latch>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "error.h"
#include "host/thread_limit.h"

namespace llmc {

void require_threads(int count) {
  std::latch ended(1);
  std::vector<std::jthread> threads;  // joined before the latch is destroyed
  try {
    while (std::ssize(threads) < count) threads.emplace_back([&ended] { ended.wait(); });
  } catch (const std::system_error& error) {
    ended.count_down();
    if (!lacks_threads(error)) throw;
    throw Failure(Exit::does_not_fit, "the run needs " + std::to_string(count + 1) + " threads, and started " +
                                          std::to_string(threads.size() + 1) + ": " + kNoThreads +
                                          ", or use fewer threads (--threads)");
  }
  ended.count_down();
}

}  // namespace llmc
