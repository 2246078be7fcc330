#include "compiler/build/process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>

#include "error.h"
#include "host/clock.h"
#include "trainer/startup/resume_line.h"

extern char** environ;

namespace llmc::build {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& argv) {
  std::vector<char*> result;
  for (const std::string& a : argv) result.push_back(const_cast<char*>(a.c_str()));
  result.push_back(nullptr);
  return result;
}

[[noreturn]] void cannot_start(const std::string& program, int error) {
  throw Failure(Exit::toolchain, "cannot run " + program + ": " + std::strerror(error));
}

using Clock = std::chrono::steady_clock;

/// Waits until the pipe can be read. Returns false at `end`.
bool readable(int fd, Clock::time_point end) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (left <= 0) return false;
    pollfd pipe{fd, POLLIN, 0};
    if (poll(&pipe, 1, static_cast<int>(std::min<std::int64_t>(left, 1000))) > 0) return true;
  }
}

/// Reads until every writer has closed the pipe. With a limit in seconds returns nothing if they have not by then.
std::optional<std::string> drain(int fd, double limit) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limit));
  std::string text;
  char buffer[1 << 16];
  while (true) {
    if (limit > 0 && !readable(fd, end)) return std::nullopt;
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0)
      text.append(buffer, static_cast<std::size_t>(n));
    else if (n == 0 || errno != EINTR)
      return text;
  }
}

}  // namespace

Outcome run(const Command& command) {
  const auto start = std::chrono::steady_clock::now();
  int pipe_fds[2];
  if (pipe2(pipe_fds, O_CLOEXEC) != 0) cannot_start(command.argv[0], errno);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 1);
  posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], 2);
  if (!command.directory.empty()) posix_spawn_file_actions_addchdir_np(&actions, command.directory.c_str());
  pid_t child = 0;
  std::vector<char*> argv = pointers(command.argv);
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pipe_fds[1]);
  if (error) {
    close(pipe_fds[0]);
    cannot_start(command.argv[0], error);
  }
  Outcome outcome;
  std::optional<std::string> output = drain(pipe_fds[0], command.limit);
  close(pipe_fds[0]);
  int status = 0;
  if (!output) {
    kill(child, SIGKILL);
    output = fmt::format("{} was still running after {:g} s and was stopped", command.label, command.limit);
    status = SIGKILL;                  // as waitpid() would report it
    waitpid(child, nullptr, WNOHANG);  // a process that is blocked in the kernel cannot be waited for
  } else {
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
  }
  outcome.output = *std::move(output);
  outcome.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return outcome;
}

std::vector<Outcome> run_all(const std::vector<Command>& commands, int jobs) {
  std::vector<Outcome> outcomes(commands.size());
  std::vector<std::exception_ptr> errors(commands.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < commands.size(); i = next++) try {
        outcomes[i] = run(commands[i]);
      } catch (...) {
        errors[i] = std::current_exception();
      }
  };
  std::vector<std::thread> threads;
  try {
    for (int j = 0; j < jobs; ++j) threads.emplace_back(work);
  } catch (const std::system_error&) {  // the system refuses more threads: fewer do the work
    if (threads.empty()) work();
  }
  for (std::thread& t : threads) t.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
  return outcomes;
}

void become(const std::vector<std::string>& argv, const std::string& resume) {
  std::vector<char*> list = pointers(argv);
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const std::string started = std::to_string(getpid()) + " " + std::to_string(now.tv_sec) + "." +
                              std::to_string(1'000'000'000 + now.tv_nsec).substr(1);
  setenv(kStartedVariable, started.c_str(), 1);
  if (!resume.empty()) setenv(kResumeVariable, (std::to_string(getpid()) + " " + resume).c_str(), 1);
  execv(list[0], list.data());
  cannot_start(argv[0], errno);
}

}  // namespace llmc::build
