#include "train/inputs.h"

#include "spec/validation_sets.h"

namespace llmc {

namespace {

std::shared_ptr<const TokenShards> open_shards(const spec::DataSource& source, const ProgramInfo& info) {
  return std::make_shared<const TokenShards>(source.path, source.format, info.vocab_size);
}

}  // namespace

Inputs open_inputs(const spec::Spec& run, const ProgramInfo& info) {
  Inputs inputs;
  inputs.train = open_shards(run.data.train, info);
  Samples(inputs.train, info.sequence_length);  // refuses data without a whole sample
  const std::vector<spec::ValidationSet> sets = spec::validation_sets(run.data);
  const bool evaluates = !sets.empty() && run.evaluation.every > 0;
  const bool samples = !run.sampling.prompts.empty() && run.sampling.every > 0;
  if (!run.data.tokenizer.empty() && (evaluates || samples || run.guards.log_text))
    inputs.tokenizer = std::make_unique<const Tokenizer>(std::filesystem::path(run.data.tokenizer));
  if (evaluates)
    for (const spec::ValidationSet& set : sets)
      inputs.evaluation.emplace_back(set.name, open_shards(set.source, info), info, run.evaluation.sequences,
                                     inputs.tokenizer.get());
  if (samples) inputs.sampling.emplace(run.sampling, inputs.tokenizer.get(), info, run.seed);
  return inputs;
}

}  // namespace llmc
