// Runs other programs: by argument list, never through a shell.
#pragma once

#include <string>
#include <vector>

namespace llmc::build {

struct Command {
  std::string label;              // for messages: "kernels/rope.cpp"
  std::vector<std::string> argv;  // argv[0] is looked up on PATH
  std::string directory;          // working directory; empty: this one
  double limit = 0;               // seconds until it is killed; 0: none
};

struct Outcome {
  int exit_code = 0;   // 128 + n after signal n
  std::string output;  // stdout and stderr
  double seconds = 0;
};

/// Runs a command and waits for it. At its limit it is killed, and its output is a line that says so. Throws
/// Failure(toolchain) if the program cannot be started.
Outcome run(const Command& command);

/// Runs all commands in the order of the list, at most `jobs` at a time; outcomes have the same order.
std::vector<Outcome> run_all(const std::vector<Command>& commands, int jobs);

/// Replaces this process by the program at the path argv[0]; returns only by throwing Failure(toolchain). Passes to a
/// trainer the time of the start and the command that resumes its run (empty: the trainer's own). No shell interprets a
/// file that is not executable.
[[noreturn]] void become(const std::vector<std::string>& argv, const std::string& resume);

}  // namespace llmc::build
