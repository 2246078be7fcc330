// Finds a program on PATH.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>
#include <system_error>

namespace llmc {

/// Path of the executable `name` on PATH, else empty. For execv(): execvp() would run a file that is no program, even
/// an empty one, as a script of /bin/sh, which then exits with 0.
inline std::string find_on_path(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    std::error_code ignored;
    if (access(candidate.c_str(), X_OK) == 0 && std::filesystem::is_regular_file(candidate, ignored)) return candidate;
  }
  return "";
}

}  // namespace llmc
