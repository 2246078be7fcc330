// The command line that resumes a run.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace llmc {

/// Environment variable in which `llmc run`, which becomes the trainer by exec, leaves "PID COMMAND": what goes on with
/// the run where the trainer alone does not say it.
inline constexpr char kResumeVariable[] = "LLMC_RESUME";

/// The command that goes on with this process' run: what `llmc run` left, with `spec` in place of `was` where the spec
/// was renamed meanwhile, else these words without what is done.
std::string resume_line(const std::vector<std::string>& argv, const std::filesystem::path& was,
                        const std::filesystem::path& spec);

/// A trainer's words without those that are done when it has started: --resume, --allow and --follow-spec. The run
/// folder keeps what came of them.
std::vector<std::string> words_to_go_on(const std::vector<std::string>& words);

}  // namespace llmc
