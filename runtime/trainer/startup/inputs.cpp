#include "trainer/startup/inputs.h"

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <utility>

#include "data/order/forecast.h"
#include "data/shard_tokenizer.h"
#include "spec/training_sources.h"
#include "spec/validation_sets.h"
#include "trainer/startup/documents.h"

namespace llmc {

namespace {

/// Files of both under any path; "'a.bin' and 2 more", or empty.
std::string shared_files(const TokenShards& a, const TokenShards& b) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> first;
  for (const TokenShards::Shard& shard : a.shards()) first.insert(shard.file.inode());
  std::vector<std::string> shared;
  for (const TokenShards::Shard& shard : b.shards())
    if (first.contains(shard.file.inode())) shared.push_back(shard.file.path().string());
  if (shared.empty()) return "";
  return fmt::format("'{}'{}", shared.front(), shared.size() > 1 ? fmt::format(" and {} more", shared.size() - 1) : "");
}

std::string evaluated_on_training(const Source& train, const TokenShards& held, const std::string& key) {
  const std::string shared = shared_files(*train.shards, held);
  if (shared.empty()) return "";
  return fmt::format(
      "{} and {} both name {}, so the run is evaluated on its training data. Write patterns without a common file",
      spec::training_key(train.name), key, shared);
}

std::string drawn_twice(const Source& a, const Source& b) {
  const std::string shared = shared_files(*a.shards, *b.shards);
  if (shared.empty()) return "";
  return fmt::format(
      "{} and {} both name {}, so the run draws its samples for both sources. Write patterns without a common file, or "
      "one source with the sum of the weights",
      spec::training_key(a.name), spec::training_key(b.name), shared);
}

/// A validation set's files.
struct Held {
  std::string key;
  std::shared_ptr<const TokenShards> shards;
};

std::vector<Held> open_held(const spec::Data& data, std::int64_t vocab_size) {
  std::vector<Held> held;
  for (const spec::ValidationSet& set : spec::validation_sets(data))
    held.push_back({set.key(), std::make_shared<const TokenShards>(set.source.path, set.source.format, vocab_size)});
  return held;
}

std::vector<std::string> doubtful(const Sources& train, const std::vector<Held>& held) {
  std::vector<std::string> lines = never_drawn(train);
  for (std::size_t i = 0; i < train.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) lines.push_back(drawn_twice(train[j], train[i]));
    for (const Held& set : held) lines.push_back(evaluated_on_training(train[i], *set.shards, set.key));
  }
  std::erase(lines, "");
  return lines;
}

}  // namespace

std::vector<std::string> doubtful_data(const spec::Spec& run) {
  return doubtful(open_sources(run.data, 0), run.evaluation.every > 0 ? open_held(run.data, 0) : std::vector<Held>());
}

Sources open_sources(const spec::Data& data, std::int64_t vocab_size) {
  Sources sources;
  for (const spec::MixedSource& of : spec::training_sources(data))
    sources.push_back({.name = of.name,
                       .weight = of.weight,
                       .most_epochs = of.most_epochs,
                       .shards = std::make_shared<const TokenShards>(of.source.path, of.source.format, vocab_size)});
  return sources;
}

Inputs open_inputs(const spec::Spec& run, const ProgramInfo& info) {
  Inputs inputs;
  const auto warn = [&](const std::string& line) {
    if (!line.empty()) inputs.warnings.push_back(line);
  };
  inputs.train = open_sources(run.data, info.vocab_size);
  for (const Source& source : inputs.train) {
    warn(source.shards->warning());
    Samples(source.shards, info.sequence_length);  // throws on data without a complete sample
  }
  inputs.documents = document_rule(run.data, info.vocab_size);
  const std::vector<spec::ValidationSet> sets = spec::validation_sets(run.data);
  for (const spec::MixedSource& of : spec::training_sources(run.data))
    warn(tokenizer_mismatch(of.source.path, run.data.tokenizer));
  for (const spec::ValidationSet& set : sets) warn(tokenizer_mismatch(set.source.path, run.data.tokenizer));
  const bool evaluates = !sets.empty() && run.evaluation.every > 0;
  const bool samples = !run.sampling.prompts.empty() && run.sampling.every > 0;
  if (!run.data.tokenizer.empty() && (evaluates || samples || run.guards.log_text))
    inputs.tokenizer = std::make_shared<const Tokenizer>(std::filesystem::path(run.data.tokenizer));
  const std::vector<Held> held = evaluates ? open_held(run.data, info.vocab_size) : std::vector<Held>();
  for (std::size_t i = 0; i < held.size(); ++i) {
    warn(held[i].shards->warning());
    inputs.evaluation.emplace_back(sets[i].name, held[i].shards, info, run.evaluation.sequences,
                                   tokenizer_of_shards(sets[i].source.path, inputs.tokenizer), inputs.documents);
  }
  for (const std::string& line : doubtful(inputs.train, held)) warn(line);
  if (evaluates)
    for (const spec::Task& task : run.evaluation.tasks)
      inputs.tasks.emplace_back(
          task.name,
          read_task(task.path, inputs.tokenizer.get(), {info.vocab_size, info.sequence_length}, task.examples), info);
  const std::int64_t separator = inputs.documents.divides() ? inputs.documents.separator : run.data.documents.separator;
  if (samples) inputs.sampling.emplace(run.sampling, inputs.tokenizer.get(), separator, info, run.seed);
  return inputs;
}

}  // namespace llmc
