// Runs start-up work on all ranks of a run and makes them fail together, before they train.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>

#include "comm/rendezvous.h"
#include "error.h"

namespace llmc {

/// A failure of one rank or of all, thrown on every rank. Each ends with its exit code, and rank 0 prints it.
class SharedFailure : public Failure {
 public:
  using Failure::Failure;
};

/// Launch of a rank of this trainer. A run without a launcher's id is identified by its folder, which all ranks know
/// and no two concurrent runs share.
LauncherInfo identified(LauncherInfo launch, const std::string& fingerprint, const std::filesystem::path& run);

/// Runs the work on every rank. If it fails on any, all throw SharedFailure, with the first failing rank's error. One
/// rank: just calls it. Collective. `wait`: for the ranks that are done first.
void together(const LauncherInfo& launch, Rendezvous& ranks, const std::function<void()>& work,
              Rendezvous::Wait wait = Rendezvous::Wait::limited);

/// Checks that all ranks see files that rank 0 writes to `run`. Throws SharedFailure naming those that do not.
/// Collective, after rank 0 has created the folder.
void check_shared(const LauncherInfo& launch, Rendezvous& ranks, const std::filesystem::path& run);

/// `mine` identifies this rank's accelerator, or is empty. Throws SharedFailure if two ranks on a machine use the same
/// one. Collective.
void check_distinct(const LauncherInfo& launch, Rendezvous& ranks, const std::string& mine);

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using RankLog = std::unique_ptr<std::FILE, CloseFile>;

/// Opens RUN/ranks/rank-0003.log for appending. Throws Failure(checkpoint).
RankLog open_rank_log(const std::filesystem::path& run, int rank);

}  // namespace llmc
