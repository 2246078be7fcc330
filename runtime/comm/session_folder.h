// The folder in which mpirun keeps the files of a job. Where it is full, Open MPI 4 aborts or waits for ever.
#pragma once

#include <cstdint>
#include <filesystem>

namespace llmc {

/// As Open MPI chooses it: orte_tmpdir_base, TMPDIR, TEMP, TMP, else /tmp.
std::filesystem::path session_folder();

/// Bytes that a job needs there, measured with Open MPI 4.1.4: two files of 4 MiB, whatever the number of ranks.
inline constexpr std::uint64_t kSessionBytes = std::uint64_t{12} << 20;

/// Throws Failure(does_not_fit) where `folder`, which need not be there, cannot hold `bytes`.
void check_session_folder(const std::filesystem::path& folder, std::uint64_t bytes = kSessionBytes);

}  // namespace llmc
