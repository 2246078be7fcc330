#include "compiler/tools/sweep/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "error.h"
#include "spec/source.h"
#include "text/shell.h"

namespace llmc::sweep {

namespace {

/// Returns text that stays in its line.
const std::string& one_line(const std::string& text) {
  if (spec::printable(text) == text) return text;
  throw Failure(Exit::usage, fmt::format("'{}' has a control character, which a script for a cluster cannot hold",
                                         spec::printable(text)));
}

/// Returns a line for a shell script.
std::string quoted(const std::vector<std::string>& words) {
  for (const std::string& word : words) one_line(word);
  return shell_line(words);
}

/// Returns "1-3,5" of ascending numbers.
std::string ranges(std::span<const ClusterRun> runs) {
  std::string text;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t first = runs[i].number;
    while (i + 1 < runs.size() && runs[i + 1].number == runs[i].number + 1) ++i;
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", first,
                        runs[i].number > first ? fmt::format("-{}", runs[i].number) : "");
  }
  return text;
}

/// Returns a path for a pattern of SLURM's, in which `%4a` is a number.
std::string pattern(const std::string& path) {
  std::string text;
  for (const char c : path) text += c == '%' ? std::string("%%") : std::string(1, c);
  return text;
}

/// Returns a case of a shell's `case`.
std::string one_case(std::size_t number, const ClusterRun& run) {
  return fmt::format("{}) set -- {} ;;\n", number, quoted(run.command));
}

}  // namespace

std::string slurm_array(std::span<const ClusterRun> runs, const ClusterJob& job) {
  if (spec::printable(job.logs) != job.logs || job.logs.find_first_of("\"\\") != std::string::npos)
    throw Failure(Exit::usage, fmt::format("SLURM cannot write logs to '{}'. Write another -o, of letters and digits",
                                           spec::printable(job.logs)));
  std::string text = fmt::format(
      R"(#!/bin/sh
# {0} runs of a sweep, one a task: sbatch FILE. Afterwards this prints the table, and writes an array of what is missing:
#   {1}
#SBATCH --job-name=sweep
#SBATCH --array={3}{4}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={2}
)",
      runs.size(), one_line(job.again), job.threads, ranges(runs), job.at_once ? fmt::format("%{}", job.at_once) : "");
  if (job.cuda) text += "#SBATCH --gpus-per-task=1\n";
  text += fmt::format(
      R"(#SBATCH --time=24:00:00
#SBATCH --signal=USR2@300      # 300 s before the time limit a run saves and ends with 75
#SBATCH --requeue              # also if a machine fails
#SBATCH --open-mode=append     # one log for all starts
#SBATCH --output="{}/%4a.txt"

)",
      pattern(job.logs));
  text += "case $SLURM_ARRAY_TASK_ID in\n";
  for (const ClusterRun& run : runs) text += one_case(run.number, run);
  return text + R"(esac
srun --kill-on-bad-exit=0 "$@"
code=$?

# 75: stopped with everything saved; 128 + n: signal n ended it. The same command resumes there.
if [ $code -eq 75 ] || [ $code -ge 128 ]; then
  if [ "${SLURM_RESTART_COUNT:-0}" -lt 50 ]; then
    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"
  fi
fi
exit $code
)";
}

std::string kubernetes_job(std::span<const ClusterRun> runs, const ClusterJob& job) {
  std::string text = fmt::format(
      R"(# {0} runs of a sweep, a pod each: kubectl apply -f FILE. Afterwards this prints the table, and writes a job of what
# is missing:
#   {1}
# Replace: the image, which has the libraries that the trainers link; the volume claim, and the path at which it is
# mounted, below which are the sweep's folder, the spec and its data; how many run at once (parallelism).
apiVersion: batch/v1
kind: Job
metadata:
  name: sweep
spec:
  completionMode: Indexed         # each pod has a number, and its replacement the same one
  completions: {0}
  parallelism: {3}
  backoffLimitPerIndex: 5         # pods of one run that failed by themselves: crashed, out of memory
  maxFailedIndexes: {0}           # a run that failed ends no other one
  podFailurePolicy:
    rules:
      - action: FailIndex         # wrong usage, spec, toolchain, size, data or numbers: a retry would fail too
        onExitCodes: {{operator: In, values: [1, 2, 3, 4, 5, 7]}}
      - action: Ignore            # stopped with everything saved: a new pod resumes
        onExitCodes: {{operator: In, values: [75]}}
      - action: Ignore            # the node was drained, or the pod was moved
        onPodConditions: [{{type: DisruptionTarget}}]
  template:
    spec:
      restartPolicy: Never        # a new pod, by the rules above
      terminationGracePeriodSeconds: 180  # to end the step and save, before the kill
      containers:
        - name: trainer
          image: sweep:1
          resources:
            limits: {{{2}}}
          volumeMounts: [{{name: train, mountPath: /train}}]
          command: [/bin/sh, -c]
          args:
            - |
              case $JOB_COMPLETION_INDEX in
)",
      runs.size(), one_line(job.again),
      job.cuda ? std::string("nvidia.com/gpu: 1") : fmt::format("cpu: {}", job.threads),
      job.at_once ? std::min(job.at_once, runs.size()) : runs.size());
  for (std::size_t i = 0; i < runs.size(); ++i) text += "              " + one_case(i, runs[i]);
  return text + R"(              esac
              exec "$@"
      volumes:
        - name: train
          persistentVolumeClaim: {claimName: sweep}
)";
}

}  // namespace llmc::sweep
