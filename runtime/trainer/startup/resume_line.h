// The command line that resumes a run.
#pragma once
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace llmc {

/// Environment variable in which `llmc run`, which becomes the trainer by exec, leaves "PID COMMAND": the command that
/// resumes the run, because the trainer's own arguments would not.
inline constexpr char kResumeVariable[] = "LLMC_RESUME";

/// Command that resumes this process's run. It is the one of `llmc run`, with `spec` in place of `was` if the spec was
/// renamed meanwhile; else `argv` without the options that took effect at start.
std::string resume_line(const std::vector<std::string>& argv, const std::filesystem::path& was,
                        const std::filesystem::path& spec);

/// Removes options that only affect the start: --resume, --allow and --follow-spec, whose effect the run folder
/// records; and those that select steps of this start: --profile, --timeline and --timeline-steps.
std::vector<std::string> words_to_go_on(const std::vector<std::string>& words);

/// Removes options, with their values.
std::vector<std::string> words_without(const std::vector<std::string>& words, std::span<const char* const> options);

}  // namespace llmc
