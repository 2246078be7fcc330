// Runs ranks of a test as forked processes on this machine, so that a rank is a function.
#pragma once

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <functional>
#include <sstream>
#include <string>
#include <vector>

#include "comm/connection.h"
#include "comm/rendezvous.h"
#include "error.h"

namespace llmc::ranks {

using namespace std::chrono_literals;

/// Short limits for tests; the silence limit still allows for a busy machine.
inline constexpr Rendezvous::Limits kLimits{1500ms, 50ms, 1000ms};

/// A port of this machine that was free a moment ago.
inline int free_port() { return port_of(listen_at(0, {})); }

struct End {
  int code = -1;  // 128 + n after signal n
  std::string err;
};

/// A process whose stderr is captured.
class Process {
 public:
  explicit Process(const std::function<int()>& body) : err_(std::tmpfile()) {
    pid_ = fork();
    if (pid_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // if the test is killed
    dup2(fileno(err_), STDERR_FILENO);
    int code = static_cast<int>(Exit::internal);
    try {
      code = body();
    } catch (const Failure& failure) {
      std::fprintf(stderr, "failure: %s\n", failure.what());
      code = static_cast<int>(failure.code());
    }
    _exit(code);
  }
  Process(Process&& other) noexcept : pid_(std::exchange(other.pid_, 0)), err_(std::exchange(other.err_, nullptr)) {}
  ~Process() {
    if (pid_) {
      ::kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    if (err_) std::fclose(err_);
  }

  void signal(int number) const { ::kill(pid_, number); }

  /// This process and all its descendants: a launcher, its mpirun, the ranks, and their children.
  std::vector<pid_t> tree() const {
    std::vector<pid_t> all = {pid_};
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::string task = "/proc/" + std::to_string(all[i]) + "/task/" + std::to_string(all[i]) + "/children";
      std::ifstream children(task);
      for (pid_t child; children >> child;) all.push_back(child);
    }
    return all;
  }

  End wait() {
    int status = 0;
    waitpid(std::exchange(pid_, 0), &status, 0);
    End end{WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), ""};
    std::rewind(err_);
    for (int c; (c = std::fgetc(err_)) != EOF;) end.err += static_cast<char>(c);
    return end;
  }

 private:
  pid_t pid_ = 0;
  std::FILE* err_;
};

/// Launch description of a test's rank.
inline LauncherInfo launch_of(int rank, int world_size, int port) {
  return {rank, world_size, rank, "torchrun", "127.0.0.1", port, "test", "trainer"};
}

/// Starts ranks that connect and then run `body`.
inline std::vector<Process> start(int world_size, const std::function<int(int rank, Rendezvous&)>& body,
                                  const Rendezvous::Limits& limits = kLimits) {
  const int port = free_port();
  std::vector<Process> processes;
  for (int rank = 0; rank < world_size; ++rank)
    processes.emplace_back([&, rank] {
      Rendezvous rendezvous(launch_of(rank, world_size, port), limits);
      return body(rank, rendezvous);
    });
  return processes;
}

inline std::vector<End> wait(std::vector<Process>& processes) {
  std::vector<End> ends;
  for (Process& process : processes) ends.push_back(process.wait());
  return ends;
}

/// Runs the ranks until all have exited.
inline std::vector<End> run(int world_size, const std::function<int(int rank, Rendezvous&)>& body) {
  std::vector<Process> processes = start(world_size, body);
  return wait(processes);
}

}  // namespace llmc::ranks
