// The warning for more threads than processors, which counts all ranks of a run on one machine.
#pragma once

#include <string>
#include <vector>

#include "comm/rendezvous.h"
#include "host/limits.h"

namespace llmc {

/// Threads of one rank.
struct RankThreads {
  std::string host;
  int threads = 1;
  std::string processors;  // numbers of those that the threads may use (Device::processors); empty: not counted
};

/// Returns those of every rank, in rank order. Collective.
std::vector<RankThreads> gather_threads(Rendezvous& ranks, const RankThreads& mine);

/// Threads without a processor of their own wait for one at every barrier. Returns the warning for the machine of the
/// first of `ranks`, whose limits are `limits`; empty if each thread has a processor.
std::string surplus_threads(const std::vector<RankThreads>& ranks, const HostLimits& limits);

}  // namespace llmc
