// What the ranks of a run settle with each other before they train.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <memory>

#include "comm/rendezvous.h"
#include "error.h"

namespace llmc {

/// What failed alike on every rank, or on one while all waited for it: each ends with its code, and rank 0 shows it.
class SharedFailure : public Failure {
 public:
  using Failure::Failure;
};

/// The launch of a rank of this trainer. A run without an id of its launcher is called by its folder, which all ranks
/// give and no two runs at a time share.
Launch identified(Launch launch, const std::string& fingerprint, const std::filesystem::path& run);

/// Does the work on every rank. Where it fails on any, all throw SharedFailure, of several the first rank's. One rank:
/// calls it, and that is all. Collective.
void together(const Launch& launch, Rendezvous& ranks, const std::function<void()>& work);

/// Whether what rank 0 writes to `run` is seen by all. Throws SharedFailure that names those that do not see it.
/// Collective, when rank 0 has made the folder.
void check_shared(const Launch& launch, Rendezvous& ranks, const std::filesystem::path& run);

/// `mine` names this rank's accelerator, or is empty where there is none. Throws SharedFailure where two ranks of a
/// machine have the same. Collective.
void check_distinct(const Launch& launch, Rendezvous& ranks, const std::string& mine);

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using RankLog = std::unique_ptr<std::FILE, CloseFile>;

/// RUN/ranks/rank-0003.log, at its end. Throws Failure(checkpoint).
RankLog open_rank_log(const std::filesystem::path& run, int rank);

}  // namespace llmc
