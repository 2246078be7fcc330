// Trainers as child processes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace llmc::sweep {

class Child {
 public:
  /// Starts the program at the path argv[0]; its output is appended to `log`. It has a process group of its own, so
  /// that a terminal's Ctrl-C reaches it only through stop(), and gets SIGTERM if this process ends. Throws
  /// Failure(toolchain).
  Child(const std::vector<std::string>& argv, const std::filesystem::path& log);
  /// Asks a child that still runs to end, and waits for it.
  ~Child();
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  /// Returns the exit code, 128 + n after signal n, once the child has ended.
  std::optional<int> ended();
  /// Asks it to save and end, once: a second request would end it at once.
  void stop();

 private:
  pid_t process_ = -1;
  bool asked_ = false;
};

}  // namespace llmc::sweep
