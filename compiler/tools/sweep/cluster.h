// Writes a sweep out for a cluster's own queue: an array of SLURM, or an indexed job of Kubernetes.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace llmc::sweep {

/// A run that is not done.
struct ClusterRun {
  std::size_t number = 0;            // from 1, as in its folder's name
  std::vector<std::string> command;  // its trainer and arguments
};

struct ClusterJob {
  std::string again;        // the llmc command that prints the table and writes what is then missing, for a shell
  std::string logs;         // absolute folder
  bool cuda = false;        // a GPU for each run
  int threads = 1;          // processors of each run
  std::size_t at_once = 0;  // runs at a time; 0: all
};

/// Returns the script of an array, whose tasks have the runs' numbers. The arguments are quoted for the shell. Throws
/// Failure(usage) if one has a control character.
std::string slurm_array(std::span<const ClusterRun> runs, const ClusterJob& job);

/// Returns the manifest of an indexed job: index N runs `runs`[N].
std::string kubernetes_job(std::span<const ClusterRun> runs, const ClusterJob& job);

}  // namespace llmc::sweep
