#include "host/clock.h"

#include <time.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace llmc {
namespace {

double boot_seconds() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Seconds from boot to the start of this process: field 22 of /proc/self/stat, in ticks. Returns the current time if
/// that cannot be read.
double started() {
  // `llmc run` compiled and then became this process by exec, so its start time does not count. The process id tells
  // this apart from a child that inherits the variable.
  if (const char* noted = std::getenv(kStartedVariable)) {
    char* end = nullptr;
    if (std::strtol(noted, &end, 10) == getpid()) return std::strtod(end, nullptr);
  }
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  std::size_t at = text.rfind(')');  // field 2 is the name in parentheses, which may contain blanks
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = text.find(' ', at + 1);
  if (at == std::string::npos) return boot_seconds();
  return static_cast<double>(std::strtoull(text.c_str() + at, nullptr, 10)) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

double process_seconds() {
  static const double start = started();
  return boot_seconds() - start;
}

}  // namespace llmc
