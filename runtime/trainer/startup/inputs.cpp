#include "trainer/startup/inputs.h"

#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <utility>

#include "spec/validation_sets.h"

namespace llmc {

namespace {

std::shared_ptr<const TokenShards> open_shards(const spec::DataSource& source, const ProgramInfo& info) {
  return std::make_shared<const TokenShards>(source.path, source.format, info.vocab_size);
}

/// Files used both for training and for evaluation, under any path.
std::string shared_files(const TokenShards& train, const TokenShards& held, const std::string& key) {
  std::set<std::pair<std::uint64_t, std::uint64_t>> trained;
  for (const TokenShards::Shard& shard : train.shards()) trained.insert(shard.file.inode());
  std::vector<std::string> shared;
  for (const TokenShards::Shard& shard : held.shards())
    if (trained.contains(shard.file.inode())) shared.push_back(shard.file.path().string());
  if (shared.empty()) return "";
  return fmt::format(
      "data.train.path and {} both name '{}'{}, so the run is evaluated on its training data. Write patterns without a "
      "common file",
      key, shared.front(), shared.size() > 1 ? fmt::format(" and {} more", shared.size() - 1) : "");
}

}  // namespace

Inputs open_inputs(const spec::Spec& run, const ProgramInfo& info) {
  Inputs inputs;
  const auto warn = [&](const std::string& line) {
    if (!line.empty()) inputs.warnings.push_back(line);
  };
  inputs.train = open_shards(run.data.train, info);
  warn(inputs.train->warning());
  Samples(inputs.train, info.sequence_length);  // throws on data without a complete sample
  const std::vector<spec::ValidationSet> sets = spec::validation_sets(run.data);
  const bool evaluates = !sets.empty() && run.evaluation.every > 0;
  const bool samples = !run.sampling.prompts.empty() && run.sampling.every > 0;
  if (!run.data.tokenizer.empty() && (evaluates || samples || run.guards.log_text))
    inputs.tokenizer = std::make_unique<const Tokenizer>(std::filesystem::path(run.data.tokenizer));
  if (evaluates)
    for (const spec::ValidationSet& set : sets) {
      const std::shared_ptr<const TokenShards> held = open_shards(set.source, info);
      warn(held->warning());
      warn(shared_files(*inputs.train, *held, set.key()));
      inputs.evaluation.emplace_back(set.name, held, info, run.evaluation.sequences, inputs.tokenizer.get());
    }
  if (samples) inputs.sampling.emplace(run.sampling, inputs.tokenizer.get(), info, run.seed);
  return inputs;
}

}  // namespace llmc
