// Answers multiple-choice tasks with a model: the ending with the largest log-likelihood after the context.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/tasks/task_file.h"
#include "step/session.h"

namespace llmc {

struct TaskResult {
  std::string task;
  std::int64_t examples = 0;
  double accuracy = 0;       // fraction whose right ending has the largest log-likelihood
  double accuracy_norm = 0;  // same, of log-likelihoods divided by TaskEnding::length
};

class TaskEvaluation {
 public:
  /// `examples`: not empty, within the model's limits.
  TaskEvaluation(std::string name, std::vector<TaskExample> examples, const ProgramInfo& info);

  const std::string& name() const { return name_; }
  /// Changes with the examples.
  std::string fingerprint() const;

  /// Computes the losses of all endings by the evaluation's forward pass, a row of a micro-batch each. An example's
  /// endings are rows of one rank, and each rank has every so many examples. Of equal endings the first is the answer.
  /// Collective; a rank without an example takes part. Returns nothing if `interrupted` returned true between two
  /// micro-batches.
  std::optional<TaskResult> run(Session& session, const std::function<bool()>& interrupted) const;

 private:
  std::vector<const TaskEnding*> rows_of(std::size_t rank, std::size_t ranks) const;
  MicroBatch batch(std::span<const TaskEnding* const> rows) const;

  std::string name_;
  std::vector<TaskExample> examples_;
  std::int64_t sequence_length_, micro_batch_;
};

/// Answers all tasks in order; empty if `interrupted` returned true.
std::vector<TaskResult> answer_all(std::span<const TaskEvaluation> tasks, Session& session,
                                   const std::function<bool()>& interrupted);

}  // namespace llmc
