// Which values a run starts with: those of the run that it goes on with, else those that the trainer was built with,
// and over them what the command line says.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "spec/values.h"
#include "train/program.h"

namespace llmc {

/// What this trainer was built with; paths resolved against `base`.
spec::Values built_values(const ProgramInfo& info, const std::filesystem::path& base);

/// The text of a run folder's or a checkpoint's spec.yaml, which lies in `folder`; paths resolved against it. Throws
/// Failure(checkpoint).
spec::Values read_spec(const std::string& text, const std::filesystem::path& folder);

/// The built values, with the run-time values of the run before in place of their own. `whole`: `before` is of a run
/// folder; else of a checkpoint, which has no paths and no intervals. The global batch stays what it is, also where it
/// followed from what is compiled in.
spec::Values go_on_with(const spec::Values& built, const spec::Values& before, bool whole);

/// Keys of --allow: what a resume takes in another value only when it is named.
const std::vector<std::string>& guarded_keys();

/// Throws Failure(checkpoint), with both values, where a run may not go on from a checkpoint: another model; and unless
/// `allowed` names it, other data, another tokenizer, another optimizer, other seeds, fewer steps. `saved` is of the
/// checkpoint, `before` are the values that it was made with, `ours` and `after` those to go on with.
void check_resume(const TrainState& saved, const spec::Spec& before, const TrainState& ours, const spec::Spec& after,
                  const std::vector<std::string>& allowed, const std::filesystem::path& checkpoint);

/// Where to go on in the data: the checkpoint's position, or the next epoch's beginning where data or their order are
/// others.
DataPosition position_after(const TrainState& saved, const TrainState& ours);

/// Whether a key shapes the tensors, so that a checkpoint's spec.yaml has it.
bool shapes_tensors(const spec::Key& key);

/// XXH3-64 of a file; empty when it cannot be read.
std::string file_checksum(const std::filesystem::path& path);

/// Files of the spec that were edited since this trainer was compiled, as `llmc compile` noted them beside it.
std::vector<std::string> edited_spec_files();

}  // namespace llmc
