// Finds the folder of the running executable, in which the files that belong to it are.
#pragma once

#include <filesystem>
#include <system_error>

namespace llmc {

/// Folder of the running executable; empty if /proc/self/exe cannot be read.
inline std::filesystem::path executable_folder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : self.parent_path();
}

}  // namespace llmc
