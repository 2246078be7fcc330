// Runs other programs: by argument list, never through a shell.
#pragma once

#include <string>
#include <vector>

namespace llmc::build {

struct Command {
  std::string label;              // for messages: "kernels/rope.cpp"
  std::vector<std::string> argv;  // argv[0] is looked up on PATH
  std::string directory;          // working directory; empty: this one
};

struct Outcome {
  int exit_code = 0;   // 128 + n after signal n
  std::string output;  // stdout and stderr
  double seconds = 0;
};

/// Throws Failure(toolchain) when the program cannot be started.
Outcome run(const Command& command);

/// Runs all, at most `jobs` at a time, in order of the list; outcomes in the same order.
std::vector<Outcome> run_all(const std::vector<Command>& commands, int jobs);

/// Replaces this process, and notes for a trainer when that was, and with which command its run goes on (empty: with
/// the trainer's own); or returns only by throwing Failure(toolchain).
[[noreturn]] void become(const std::vector<std::string>& argv, const std::string& resume);

/// The program's path if `name` is executable on PATH, else empty.
std::string find_on_path(const std::string& name);

}  // namespace llmc::build
