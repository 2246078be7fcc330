// The limit of threads that a process may have (ulimit -u and -v, pids.max): reaching it is no fault of llmc.
#pragma once

#include <exception>
#include <system_error>

namespace llmc {

inline constexpr char kNoThreads[] =
    "the system gives this process no more threads; raise the limit (ulimit -u or -v, or pids.max of its control "
    "group)";

/// Whether `error` is that of a thread that could not be started.
inline bool lacks_threads(const std::exception& error) {
  const auto* system = dynamic_cast<const std::system_error*>(&error);
  return system && system->code() == std::errc::resource_unavailable_try_again;
}

}  // namespace llmc
