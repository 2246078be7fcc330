// Detects that a thread could not be started because of a limit of the system (ulimit -u and -v, pids.max).
#pragma once

#include <exception>
#include <system_error>

namespace llmc {

inline constexpr char kNoThreads[] =
    "the system allows this process no more threads. Raise the limit (ulimit -u or -v, or pids.max of its control "
    "group)";

/// Returns whether `error` is a thread that could not be started.
inline bool lacks_threads(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system && system->code() == std::errc::resource_unavailable_try_again;
}

}  // namespace llmc
