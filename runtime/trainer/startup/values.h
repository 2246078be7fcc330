// Which values a run starts with: those of the run that it goes on with, else (or with --follow-spec) those that the
// trainer was built with, and over them what the command line says.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "program/program.h"
#include "spec/values.h"
#include "trainer/options.h"
#include "trainer/startup/resume_point.h"

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

/// What a run trains with, and what it is to be compared with.
struct StartValues {
  spec::Values built, run;
  std::optional<spec::Values> before;  // of the start before in this folder, or of the checkpoint
  std::filesystem::path kept_in;       // the spec.yaml that these are from
};

/// Calls `check`. A Failure of it that names keys which the run keeps, and which the trainer was built with otherwise,
/// is thrown with a line that says so: nobody wrote these values in this command.
void with_origins(const Options& options, const StartValues& values, const std::function<void()>& check);

/// `kept`: the run folder's spec.yaml, where a run was started in it before. Throws Failure.
StartValues find_values(const Options& options, const ProgramInfo& info, const std::optional<std::string>& kept,
                        const std::optional<StartPoint>& start);

/// The step that the run ends after. Throws Failure(usage) where --steps goes past the schedule.
std::int64_t last_step(const Options& options, const StartValues& values);

/// Throws Failure(data) where files that the run reads are not there, with the key of each, where its path is from, and
/// the whole command to write.
void check_paths(const Options& options, const StartValues& values, bool kept);

/// The spec file, still there, that the trainer before in this run folder was compiled from, where it is another than
/// `spec`, this one's; empty where there is none.
std::filesystem::path other_spec(const std::filesystem::path& run, const std::filesystem::path& spec);

/// Throws Failure(checkpoint) where a run in the default folder would go on with that of another spec of its name.
void check_spec(const Options& options, const std::filesystem::path& spec);

/// Throws what a start with these options is refused for, as far as that shows without the trainer and its
/// checkpoints: wrong words and values, the run folder of another model or another spec, data that are not there or do
/// not fit. `spec`: the file that the trainer is compiled from. Of `info`, what open_inputs() reads, name, fingerprint
/// and spec are there.
void check_start(const Options& options, const ProgramInfo& info, const std::filesystem::path& spec);

/// Keys of --allow: what a resume takes in another value only when it is named.
const std::vector<std::string>& guarded_keys();

/// Throws Failure(checkpoint), with both values, where a run may not go on from a checkpoint: another model; and unless
/// `allowed` names it, other data, another tokenizer, another optimizer, other seeds, fewer steps. `saved` is of the
/// checkpoint, `before` are the values that it was made with, `ours` and `after` those to go on with, `shards` says
/// which files are others, where that is known.
void check_resume(const TrainState& saved, const spec::Spec& before, const TrainState& ours, const spec::Spec& after,
                  const std::vector<std::string>& allowed, const std::filesystem::path& checkpoint,
                  const std::string& shards);

/// Where to go on in the data: the checkpoint's position, or the next epoch's beginning where data or their order are
/// others.
DataPosition position_after(const TrainState& saved, const TrainState& ours);

/// All that the checkpoint has, for a run that begins as `ours`: its seeds and data, and its tokenizer where it has
/// one.
TrainState resumed(TrainState saved, const TrainState& ours);

/// Whether a key shapes the tensors, so that a checkpoint's spec.yaml has it.
bool shapes_tensors(const spec::Key& key);

}  // namespace llmc
