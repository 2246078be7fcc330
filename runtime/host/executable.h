// Where this program lies: files beside it belong to it.
#pragma once

#include <filesystem>
#include <system_error>

namespace llmc {

/// The folder of the running executable; empty where the system does not say.
inline std::filesystem::path executable_folder() {
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? std::filesystem::path() : self.parent_path();
}

}  // namespace llmc
