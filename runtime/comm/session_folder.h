// Folder for mpirun's files of a job. If it is full, Open MPI 4 aborts or waits forever.
#pragma once

#include <cstdint>
#include <filesystem>

namespace llmc {

/// Open MPI's choice: orte_tmpdir_base, TMPDIR, TEMP, TMP, else /tmp.
std::filesystem::path session_folder();

/// Bytes that a job needs there, measured with Open MPI 4.1.4: two files of 4 MiB, for any number of ranks.
inline constexpr std::uint64_t kSessionBytes = std::uint64_t{12} << 20;

/// Throws Failure(does_not_fit) if `folder`, which need not exist, cannot hold `bytes`.
void check_session_folder(const std::filesystem::path& folder, std::uint64_t bytes = kSessionBytes);

}  // namespace llmc
