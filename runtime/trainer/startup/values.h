// Determines the values a run starts with: those of the resumed run, or with --follow-spec or for a new run the
// trainer's, overridden by the command line.
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

/// Values this trainer was built with; paths resolved against `base`.
spec::Values built_values(const ProgramInfo& info, const std::filesystem::path& base);

/// Parses the text of spec.yaml of a run folder or a checkpoint in `folder`; paths resolved against it. Throws
/// Failure(checkpoint).
spec::Values read_spec(const std::string& text, const std::filesystem::path& folder);

/// Built values with the run-time values of `before`. `whole`: `before` is from a run folder; else from a checkpoint,
/// which has no paths and no intervals. The global batch is kept, even if it was derived from compiled values.
/// `followed`: keys that keep their built values.
spec::Values go_on_with(const spec::Values& built, const spec::Values& before, bool whole,
                        const std::vector<std::string>& followed = {});

/// Values a run trains with, and those to compare them with.
struct StartValues {
  spec::Values built, run;
  std::optional<spec::Values> before;  // of the previous start in this folder, or of the checkpoint
  std::filesystem::path kept_in;       // spec.yaml that they were read from
};

/// Calls `check`. If it throws a Failure naming keys that were kept from the run and differ from the trainer's, a line
/// is added that says so, because these values are not in the command.
void with_origins(const Options& options, const StartValues& values, const std::function<void()>& check);

/// `kept`: the run folder's spec.yaml, if a run was started in it before. Throws Failure.
StartValues find_values(const Options& options, const ProgramInfo& info, const std::optional<std::string>& kept,
                        const std::optional<StartPoint>& start);

/// Values that a run with those of `before`, in the phase before that of `info`, has in that phase: the keys that the
/// phase changes have the trainer's, and so have paths and intervals; with --follow-spec all have.
StartValues values_of_phase(const Options& options, const ProgramInfo& info, const StartValues& before);

/// Last step of the run. Throws Failure(usage) if --steps exceeds the schedule.
std::int64_t last_step(const Options& options, const ProgramInfo& info, const StartValues& values);

/// Throws Failure(data) if files that the run reads are missing: names the key of each, the source of its path, and the
/// complete command to write.
void check_paths(const Options& options, const StartValues& values, bool kept);

/// Spec file that the previous trainer of this run folder was compiled from, if it still exists and differs from
/// `spec`, this trainer's; else empty.
std::filesystem::path other_spec(const std::filesystem::path& run, const std::filesystem::path& spec);

/// Throws Failure(checkpoint) if a run in the default folder would resume that of another spec of the same name.
void check_spec(const Options& options, const std::filesystem::path& spec);

/// Throws the failures of a start with these options that can be found without the trainer and its checkpoints: wrong
/// arguments and values, a run folder of another model or spec, missing or unsuitable data. `spec`: file that the
/// trainer is compiled from. `info` needs only what open_inputs() reads, name, fingerprint and spec, and of
/// a run with phases that begins phase and phases_json, which the epochs of all phases are checked with.
void check_start(const Options& options, const ProgramInfo& info, const std::filesystem::path& spec);

/// Whether a key shapes the tensors, so that a checkpoint's spec.yaml has it.
bool shapes_tensors(const spec::Key& key);

}  // namespace llmc
