#include "train/task.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "files/durable_file.h"

namespace llmc {
namespace {

/// Index of the largest value, the first of equal ones; -1, which is no label, if one is NaN.
std::int64_t best_of(std::span<const double> values) {
  if (std::ranges::any_of(values, [](double value) { return std::isnan(value); })) return -1;
  return std::ranges::max_element(values) - values.begin();
}

}  // namespace

TaskEvaluation::TaskEvaluation(std::string name, std::vector<TaskExample> examples, const ProgramInfo& info)
    : name_(std::move(name)),
      examples_(std::move(examples)),
      sequence_length_(info.sequence_length),
      micro_batch_(info.micro_batch) {}

std::string TaskEvaluation::fingerprint() const {
  Checksum checksum;
  const auto add = [&](std::int64_t value) { checksum.update(&value, sizeof value); };
  for (const TaskExample& example : examples_) {
    add(example.label);
    for (const TaskEnding& ending : example.endings) {
      add(ending.first), add(ending.length), add(static_cast<std::int64_t>(ending.tokens.size()));
      checksum.update(ending.tokens.data(), ending.tokens.size() * sizeof(std::int32_t));
    }
  }
  return checksum.hex();
}

std::vector<const TaskEnding*> TaskEvaluation::rows_of(std::size_t rank, std::size_t ranks) const {
  std::vector<const TaskEnding*> rows;
  for (std::size_t i = rank; i < examples_.size(); i += ranks)
    for (const TaskEnding& ending : examples_[i].endings) rows.push_back(&ending);
  return rows;
}

MicroBatch TaskEvaluation::batch(std::span<const TaskEnding* const> rows) const {
  MicroBatch batch;
  const auto length = static_cast<std::size_t>(sequence_length_);
  batch.inputs.assign(static_cast<std::size_t>(micro_batch_) * length, 0);
  batch.targets.assign(batch.inputs.size(), -1);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const TaskEnding& ending = *rows[row];
    std::copy(ending.tokens.begin(), ending.tokens.end() - 1,
              batch.inputs.begin() + static_cast<std::ptrdiff_t>(row * length));
    std::copy(ending.tokens.begin() + ending.first, ending.tokens.end(),
              batch.targets.begin() + static_cast<std::ptrdiff_t>(row * length) + ending.first - 1);
  }
  std::vector<std::int32_t> counts;
  index_tokens(batch, counts);
  return batch;
}

std::optional<TaskResult> TaskEvaluation::run(Session& session, const std::function<bool()>& interrupted) const {
  const auto rank = static_cast<std::size_t>(session.mesh().data.index),
             ranks = static_cast<std::size_t>(session.mesh().data.size), wide = static_cast<std::size_t>(micro_batch_),
             length = static_cast<std::size_t>(sequence_length_);
  const auto passes = [&](std::size_t of) { return (rows_of(of, ranks).size() + wide - 1) / wide; };
  std::size_t rounds = passes(rank);
  if (session.passes_together())
    for (std::size_t other = 0; other < ranks; ++other) rounds = std::max(rounds, passes(other));
  const std::vector<const TaskEnding*> rows = rows_of(rank, ranks);
  std::vector<double> likelihoods;
  std::vector<float> losses(wide * length);
  session.begin_evaluation();
  for (std::size_t round = 0; round < rounds; ++round) {
    if (interrupted()) return std::nullopt;
    const std::size_t begin = std::min(round * wide, rows.size()), end = std::min(begin + wide, rows.size());
    session.evaluate(batch(std::span(rows).subspan(begin, end - begin)), 1, round == 0);
    session.target_losses(losses);
    for (std::size_t row = 0; row < end - begin; ++row) {
      double nats = 0;
      for (std::size_t t = 0; t < length; ++t) nats += static_cast<double>(losses[row * length + t]);
      likelihoods.push_back(-nats);
    }
  }
  std::array<double, 2> right = {};
  std::size_t row = 0;
  for (std::size_t i = rank; i < examples_.size(); i += ranks) {
    const TaskExample& example = examples_[i];
    const std::span<double> of_example(&likelihoods[row], example.endings.size());
    right[0] += best_of(of_example) == example.label;
    for (std::size_t e = 0; e < of_example.size(); ++e) of_example[e] /= static_cast<double>(example.endings[e].length);
    right[1] += best_of(of_example) == example.label;
    row += example.endings.size();
  }
  const auto [plain, norm] = session.sum_over_ranks(right);
  const auto count = static_cast<double>(examples_.size());
  return TaskResult{name_, static_cast<std::int64_t>(examples_.size()), plain / count, norm / count};
}

std::vector<TaskResult> answer_all(std::span<const TaskEvaluation> tasks, Session& session,
                                   const std::function<bool()>& interrupted) {
  std::vector<TaskResult> all;
  for (const TaskEvaluation& task : tasks) {
    std::optional<TaskResult> one = task.run(session, interrupted);
    if (!one) return {};
    all.push_back(std::move(*one));
  }
  return all;
}

}  // namespace llmc
