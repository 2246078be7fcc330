#include "comm/session_folder.h"

#include <fmt/format.h>

#include <cstdlib>
#include <system_error>

#include "error.h"
#include "text/printable.h"

namespace llmc {

std::filesystem::path session_folder() {
  for (const char* name : {"OMPI_MCA_orte_tmpdir_base", "TMPDIR", "TEMP", "TMP"})
    if (const char* folder = std::getenv(name); folder && *folder) return folder;
  return "/tmp";
}

void check_session_folder(const std::filesystem::path& folder, std::uint64_t bytes) {
  std::error_code error;
  std::filesystem::path there = folder;  // mpirun creates missing folders
  std::filesystem::space_info space = std::filesystem::space(there, error);
  while (error == std::errc::no_such_file_or_directory && there.has_relative_path()) {
    there = there.parent_path();
    space = std::filesystem::space(there, error);
  }
  constexpr double kMiB = 1 << 20;
  if (error)
    throw Failure(Exit::does_not_fit,
                  fmt::format("mpirun keeps files in '{}', which cannot be used: {}. Set TMPDIR to another folder",
                              printable(folder.string()), error.message()));
  if (space.available < bytes)
    throw Failure(Exit::does_not_fit,
                  fmt::format("mpirun keeps files in '{}', whose disk has {:.1f} MiB free of the {:.0f} that they "
                              "need. Free some space, or set TMPDIR to another folder",
                              printable(folder.string()), static_cast<double>(space.available) / kMiB,
                              static_cast<double>(bytes) / kMiB));
}

}  // namespace llmc
