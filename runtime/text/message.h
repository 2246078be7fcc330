// Prints messages to standard error.
#pragma once

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace llmc {

/// Prints to standard error. A message that cannot be written is lost without changing the exit code; fmt::print would
/// throw.
template <class... T>
void to_stderr(fmt::format_string<T...> format, T&&... values) {
  const std::string text = fmt::format(format, std::forward<T>(values)...);
  std::fwrite(text.data(), 1, text.size(), stderr);
}

/// Whether ANSI colours may be written: to a terminal, unless NO_COLOR is set.
inline bool colour_on(int fd) {
  const char* no_colour = std::getenv("NO_COLOR");
  return isatty(fd) && !(no_colour && *no_colour);
}

}  // namespace llmc
