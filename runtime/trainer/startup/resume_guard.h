// Compares a run that resumes with its checkpoint: changes that need --allow, and the state to resume with.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "spec/spec.h"

namespace llmc {

/// Keys whose value may differ from the checkpoint's only with --allow KEY. Those of sources with names are not listed:
/// data.train.NAME for the data of one, or for adding or removing it, data.train.NAME.weight,
/// data.train.NAME.most_epochs.
const std::vector<std::string>& guarded_keys();

/// Returns whether --allow takes the word: a guarded key, or data.train for all that its sources have.
bool is_guarded(const std::string& word);

/// Throws Failure(checkpoint), with both values, if a run must not resume from a checkpoint: a model of other tensors;
/// and unless in `allowed`, other rotary angles or windows, other data, another mixture, another tokenizer or
/// optimizer, other seeds, fewer steps. `saved` and `before` are the checkpoint's state and values, those of the model
/// included, `ours` and `after` those to resume with. `shards` describes files that differ, if known.
void check_resume(const TrainState& saved, const spec::Spec& before, const TrainState& ours, const spec::Spec& after,
                  const std::vector<std::string>& allowed, const std::filesystem::path& checkpoint,
                  const std::string& shards);

/// All that the checkpoint has, for a run that begins as `ours`: its seeds and data, and its tokenizer where it has
/// one. The data position is the one of continue_in().
TrainState resumed(TrainState saved, const TrainState& ours);

}  // namespace llmc
