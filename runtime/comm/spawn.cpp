#include "comm/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <utility>

#include "comm/connection.h"
#include "comm/launcher.h"
#include "comm/rank_output.h"
#include "comm/requests.h"
#include "comm/session_folder.h"
#include "error.h"
#include "files/disk.h"
#include "host/ignored_signal.h"
#include "host/limits.h"
#include "host/program_path.h"
#include "host/standard_streams.h"
#include "text/message.h"

namespace llmc {
namespace {

using std::chrono::steady_clock;
/// Variables of a child process that differ from this one's; nothing: it does not have the variable.
using ChildVariables = std::vector<std::pair<std::string, std::optional<std::string>>>;

constexpr int kPeerLost = static_cast<int>(Exit::peer_lost);
constexpr int kResumeMe = static_cast<int>(Exit::resume_me);
// After one rank has failed, heartbeats tell the others; those still running after this time are ended.
constexpr std::chrono::seconds kOthers{90};
// After a rank has failed, mpirun of Open MPI 4 waits this long, ends the others by SIGTERM, waits as long once more,
// even if none is left, and ends them by SIGKILL. Version 5 has no such time and kills them at once. Saves do not need
// it: ranks that stop with 75 have all saved.
constexpr const char* kSecondsToEnd = "2";
// Excludes the parts of mpirun that read a scheduler's allocation: they would run the ranks on all machines of a job.
// mpirun ignores names that it does not know.
constexpr const char* kNoScheduler = "^alps,flux,gridengine,loadleveler,lsf,pals,pbs,slurm,tm";

// mpirun takes the first three as the end of all ranks, and kills them before they have saved; it forwards SIGUSR1,
// also to ranks that still start. It has them blocked, so that a scheduler may signal every process of a job; Open MPI
// unblocks all signals in the ranks that it starts.
constexpr int kKeptFromMpirun[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1};
// How often a launcher with a request looks for ranks that mpirun has started meanwhile.
constexpr int kLookMilliseconds = 50;
constexpr std::chrono::milliseconds kIdleLook{1000};  // without a request
constexpr std::chrono::seconds kSayAgain{5};

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
      throw Failure(Exit::toolchain, fmt::format("cannot start ranks: pipe2: {}", std::strerror(errno)));
    read = Socket(ends[0]);
    write = Socket(ends[1]);
  }
  Socket read, write;
};

/// One of the two output streams of a process.
struct Output {
  int process;  // index
  std::FILE* to;
  Socket from;
  LineCutter lines;
};

struct Process {
  pid_t pid = 0;  // 0: exited
  int rank = -1;  // -1: mpirun
};

/// Starts a program in its own process group, so that a terminal's signals reach only this process and are passed on
/// once. `signals`: blocked in it; `without_parent`: signal sent to it if this process dies.
pid_t start(const std::vector<std::string>& command, const ChildVariables& variables, int out, int err,
            const sigset_t& signals, int without_parent) {
  Pipe failed;
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const std::string program = command[0].find('/') == std::string::npos ? find_on_path(command[0]) : command[0];
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw Failure(Exit::toolchain, fmt::format("cannot start ranks: fork: {}", std::strerror(errno)));
  if (child == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, without_parent);
    if (getppid() != parent) _exit(1);
    pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    for (const auto& [name, value] : variables)
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    const int in = open("/dev/null", O_RDONLY | O_CLOEXEC);
    dup2(in, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv(program.c_str(), argv.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = write(failed.write.fd(), &error, sizeof error);
    _exit(127);
  }
  failed.write = Socket();
  int error = 0;
  ssize_t n = 0;
  while ((n = read(failed.read.fd(), &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n <= 0) return child;
  waitpid(child, nullptr, 0);
  throw Failure(Exit::toolchain,
                fmt::format("cannot run {}: {}{}", command[0], std::strerror(error),
                            command[0] == "mpirun" ? ". Install it with: apt-get install openmpi-bin" : ""));
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

constexpr int kRuns = -1;

struct Child {
  pid_t pid = 0;
  int code = kRuns;  // of one that has ended and for which its parent has not waited
};

/// None: it is gone.
std::optional<Child> child_by(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string stat;
  std::getline(file, stat);
  const std::size_t name = stat.rfind(") ");
  if (name == std::string::npos) return std::nullopt;
  if (stat[name + 2] != 'Z') return Child{pid, kRuns};
  return Child{pid, code_of(std::atoi(stat.c_str() + stat.rfind(' ')))};  // the last number, as wait() has it
}

/// Whether a process handles or ignores a signal, which ends it otherwise.
bool survives(pid_t pid, int signal) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  std::uint64_t handled = 0;
  for (std::string word; status >> word;)
    if (std::uint64_t set = 0; (word == "SigIgn:" || word == "SigCgt:") && status >> std::hex >> set) handled |= set;
  return handled >> (signal - 1) & 1;
}

/// Of mpirun, the ranks.
std::vector<Child> children_of(pid_t pid) {
  std::vector<Child> children;
  for (const std::filesystem::path& task : disk::readable_entries(fmt::format("/proc/{}/task", pid))) {
    std::ifstream list(task / "children");
    for (pid_t child; list >> child;)
      if (const std::optional<Child> found = child_by(child)) children.push_back(*found);
  }
  return children;
}

ChildVariables rank_variables(int rank, int ranks, int port) {
  const std::string of = std::to_string(ranks), number = std::to_string(rank);
  return {{"RANK", number},
          {"LOCAL_RANK", number},
          {"WORLD_SIZE", of},
          {"LOCAL_WORLD_SIZE", of},
          {"MASTER_ADDR", "127.0.0.1"},
          {"MASTER_PORT", std::to_string(port)},
          {"TORCHELASTIC_RUN_ID", fmt::format("ranks of process {}", getpid())}};
}

ChildVariables mpirun_variables(int ranks) {
  ChildVariables variables = {{"OMPI_MCA_odls_base_sigkill_timeout", kSecondsToEnd},
                              {"OMPI_MCA_ras", kNoScheduler},
                              {"PRTE_MCA_ras", kNoScheduler}};
  // This process may be a rank of its own launcher.
  for (const char* name : variables_of_other_launchers()) variables.emplace_back(name, std::nullopt);
  if (const char* of_user = std::getenv("OMP_NUM_THREADS"); !of_user || !*of_user)
    variables.push_back({"OMP_NUM_THREADS", std::to_string(std::max(1, HostLimits().processors() / ranks))});
  // mpirun refuses root unless allowed by two variables. A root user, as in containers, has deliberately started the
  // trainer as root.
  if (geteuid() == 0) {
    for (const char* name : {"OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"})
      variables.push_back({name, "1"});
    for (const char* name : {"PRTE_ALLOW_RUN_AS_ROOT", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM"})
      variables.push_back({name, "1"});
  }
  return variables;
}

class Ranks {
 public:
  Ranks(const std::vector<std::string>& command, int ranks, Starter starter, const MpirunLimits& limits)
      : ranks_(ranks), limits_(limits), last_(ranks) {
    sigset_t passed;
    sigemptyset(&passed);
    for (const int signal : {SIGTERM, SIGINT, SIGUSR1, SIGUSR2}) sigaddset(&passed, signal);
    if (!is_ignored(SIGHUP)) sigaddset(&passed, SIGHUP);
    sigaddset(&passed, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &passed, &before_);
    signals_ = Socket(signalfd(-1, &passed, SFD_CLOEXEC | SFD_NONBLOCK));
    try {
      if (starter == Starter::mpirun) {
        const std::string n = std::to_string(ranks);
        // --host: Open MPI may be configured with a default list of hosts.
        std::vector<std::string> words = {
            "mpirun", "-n", n, "--host", "localhost:" + n, "--bind-to", "none", "--oversubscribe", "--tag-output"};
        words.insert(words.end(), command.begin(), command.end());
        sigset_t blocked = before_;
        for (const int signal : kKeptFromMpirun) sigaddset(&blocked, signal);
        add(-1, words, mpirun_variables(ranks), blocked, SIGUSR2);  // forwarded by mpirun: the ranks save and end
        return;
      }
      // Rank 0 will listen at the port after MASTER_PORT.
      const int port = port_of(listen_at(0, {})) - 1;
      for (int rank = 0; rank < ranks; ++rank) add(rank, command, rank_variables(rank, ranks, port), before_, SIGTERM);
    } catch (...) {
      end();
      throw;
    }
  }
  ~Ranks() { end(); }
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  bool was_stopped() const { return stop_.has_value(); }

  int run() {
    while (std::any_of(processes_.begin(), processes_.end(), [](const Process& p) { return p.pid != 0; }) ||
           !outputs_.empty()) {
      wait();
      pass_signals();
      watch_mpirun();
      collect();
      if (limit_ && steady_clock::now() >= *limit_) kill_ranks();
    }
    return result();
  }

 private:
  void add(int rank, const std::vector<std::string>& command, const ChildVariables& variables, const sigset_t& blocked,
           int without_parent) {
    Pipe out, err;
    processes_.push_back({start(command, variables, out.write.fd(), err.write.fd(), blocked, without_parent), rank});
    const int index = static_cast<int>(processes_.size()) - 1;
    outputs_.push_back({index, stdout, std::move(out.read), {}});
    outputs_.push_back({index, stderr, std::move(err.read), {}});
  }

  void wait() {
    std::vector<pollfd> list{{signals_.fd(), POLLIN, 0}};
    for (const Output& output : outputs_) list.push_back({output.from.fd(), POLLIN, 0});
    int patience = limit_ ? std::max(10, poll_timeout(*limit_)) : -1;
    if (const int look = stop_ ? kLookMilliseconds : under_mpirun() ? idle_look() : -1; look >= 0)
      patience = patience < 0 ? look : std::min(patience, look);
    poll(list.data(), list.size(), patience);
    std::vector<Output> open;
    for (std::size_t i = 0; i < outputs_.size(); ++i)
      if (!(list[i + 1].revents) || relay(outputs_[i])) open.push_back(std::move(outputs_[i]));
    outputs_ = std::move(open);
  }

  /// Returns false at the end of the stream.
  bool relay(Output& output) {
    std::array<char, 1 << 16> buffer;
    const ssize_t n = read(output.from.fd(), buffer.data(), buffer.size());
    if (n < 0 && errno == EINTR) return true;
    if (n > 0) output.lines.add({buffer.data(), static_cast<std::size_t>(n)});
    while (const std::optional<std::string> line = output.lines.next()) print(output, *line);
    if (n <= 0)
      if (const std::optional<std::string> line = output.lines.rest()) print(output, *line);
    // An output error matters only before the first step; once ranks train, a lost log must not stop them.
    if (n > 0 && output.to == stdout && !std::exchange(shown_, true) && stream_error(stdout) != EPIPE) check_output();
    std::fflush(output.to);
    return n > 0;
  }

  void print(const Output& output, std::string_view line) {
    int rank = processes_[static_cast<std::size_t>(output.process)].rank;
    if (rank < 0) {
      if (const std::optional<TaggedLine> tagged = tags_.read(line)) {
        rank = tagged->rank;
        line = tagged->text;
      } else {
        // mpirun's own messages: long ones about a failed rank, which has printed the cause itself.
        said_.emplace_back(line);
        return;
      }
    }
    last_.add(rank, line);
    std::fputs(fmt::format("[rank {}] {}\n", rank, line).c_str(), output.to);  // fmt::print would throw without a
                                                                               // reader
  }

  void pass_signals() {
    signalfd_siginfo info{};
    while (read(signals_.fd(), &info, sizeof info) == sizeof info) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGUSR1)
        take_save();
      else if (signal != SIGCHLD)
        take_stop(signal);
    }
    if (stop_) pass_stop();
  }

  void take_save() {
    const auto now = steady_clock::now();
    if (saved_ && now - *saved_ < kSameRequest) return;
    saved_ = now;
    // A rank that is not yet its program has nothing to save.
    for (const pid_t pid : rank_processes())
      if (survives(pid, SIGUSR1)) kill(pid, SIGUSR1);
  }

  void take_stop(int signal) {
    const auto now = steady_clock::now();
    if (!stop_)
      stop_ = Stop{signal, now, now, PassedOn::first, {}};
    else if (now - stop_->since >= kSameRequest)
      stop_ = Stop{signal, stop_->since, now, PassedOn::again, {}};
  }

  /// Signals each rank once, also ranks that mpirun starts later. Ranks still running get it repeatedly as the same
  /// request, because one that was just becoming the rank's program may have lost it.
  void pass_stop() {
    const auto now = steady_clock::now();
    if (now - stop_->passed >= kSayAgain) {
      stop_->passed = now;
      stop_->told.clear();
    }
    for (const pid_t pid : rank_processes())
      if (stop_->told.insert(pid).second)
        sigqueue(pid, stop_->signal, sigval{.sival_int = static_cast<int>(stop_->how)});
  }

  bool under_mpirun() const { return processes_.front().rank < 0 && processes_.front().pid != 0; }

  /// How often ranks are looked for without a request.
  int idle_look() const { return static_cast<int>(std::min({kIdleLook, limits_.start, limits_.alone}).count()); }

  /// Open MPI 4 may wait for ever for a rank that a signal ended while it started.
  void watch_mpirun() {
    if (!under_mpirun()) return;
    const auto now = steady_clock::now();
    if (!stop_ && now - looked_ < std::chrono::milliseconds(idle_look())) return;
    looked_ = now;
    bool alone = stop_.has_value() || ranks_seen_;
    for (const Child& rank : children_of(processes_.front().pid)) {
      ranks_seen_ = true;
      if (rank.code == kRuns) return alone_.reset();
      alone = true;
      if (ended_code_ == 0) ended_code_ = rank.code;
    }
    if (!alone) return limit_start(now);
    if (!alone_) alone_ = now;
    if (now - *alone_ < limits_.alone) return;
    kill(processes_.front().pid, SIGKILL);
    code_ = stop_ ? 128 + stop_->signal : ended_code_;
  }

  /// Open MPI 4 may wait for ever if the system refuses it a rank's pipes.
  void limit_start(MonotonicTime now) {
    if (now - began_ < limits_.start || !last_.all().empty()) return;
    if (children_of(getpid()).empty()) return;  // not even mpirun: the system lists no children, and so no rank
    const double seconds = std::chrono::duration<double>(limits_.start).count();
    said_.push_back(fmt::format("error: mpirun started no rank within {:g} s and was ended", seconds));
    kill(processes_.front().pid, SIGKILL);
    code_ = static_cast<int>(Exit::toolchain);
  }

  /// Running ranks, without mpirun.
  std::vector<pid_t> rank_processes() const {
    std::vector<pid_t> pids;
    for (const Process& process : processes_) {
      if (process.pid == 0) continue;
      if (process.rank >= 0) {
        pids.push_back(process.pid);
        continue;
      }
      for (const Child& rank : children_of(process.pid))
        if (rank.code == kRuns) pids.push_back(rank.pid);
    }
    return pids;
  }

  void kill_ranks() {
    for (const pid_t pid : rank_processes()) kill(pid, SIGKILL);
  }

  void collect() {
    int status = 0;
    for (Process& process : processes_) {
      if (process.pid == 0 || waitpid(process.pid, &status, WNOHANG) != process.pid) continue;
      process.pid = 0;
      const int code = code_of(status);
      if (code == 0) continue;
      // The first rank that failed by itself, not because of another.
      if (code_ == 0 || (code_ == kPeerLost && code != kPeerLost && !limit_passed())) {
        code_ = code;
        rank_ = process.rank;
      }
      if (code != kResumeMe && !limit_) limit_ = steady_clock::now() + kOthers;
    }
  }

  bool limit_passed() const { return limit_ && steady_clock::now() >= *limit_; }

  int result() {
    if (code_ == 0) return 0;
    if (rank_ < 0) rank_ = blamed_rank(said_);
    if (rank_ < 0) rank_ = blamed_rank(last_.all());
    if (rank_ < 0 || rank_ >= ranks_) {
      for (const std::string& line : said_) to_stderr("{}\n", line);
      // mpirun ends with 1 if it can start nothing. Of a rank, which prints why, that means a wrong spec.
      return code_ == 1 && last_.all().empty() ? static_cast<int>(Exit::toolchain) : code_;
    }
    if (code_ == kResumeMe) return code_;
    to_stderr("\nrank {} of {} ended with exit code {}{}\n", rank_, ranks_, code_,
              last_.of(rank_).empty() ? "" : ". Its last output:");
    for (const std::string& line : last_.of(rank_)) to_stderr("  {}\n", line);
    return code_;
  }

  void end() {
    kill_ranks();
    for (Process& process : processes_) {
      if (process.pid == 0) continue;
      kill(process.pid, SIGKILL);
      waitpid(process.pid, nullptr, 0);
      process.pid = 0;
    }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }

  const int ranks_;
  const MpirunLimits limits_;
  sigset_t before_;
  Socket signals_;
  std::vector<Process> processes_;
  std::vector<Output> outputs_;
  std::vector<std::string> said_;  // by mpirun
  TagReader tags_;
  LastLines last_;
  bool shown_ = false;  // whether a line was written to standard output
  struct Stop {
    int signal;
    MonotonicTime since;   // of the first
    MonotonicTime passed;  // when all were last signalled
    PassedOn how;
    std::set<pid_t> told;
  };
  std::optional<Stop> stop_;
  std::optional<MonotonicTime> saved_;  // when the ranks were last asked to
  // Under mpirun, as it was last looked at.
  const MonotonicTime began_ = steady_clock::now();
  MonotonicTime looked_{};
  bool ranks_seen_ = false;
  std::optional<MonotonicTime> alone_;  // since when no rank runs
  int ended_code_ = 0;                  // of a rank that failed and for which mpirun has not waited
  int code_ = 0, rank_ = -1;            // of the first that failed
  std::optional<MonotonicTime> limit_;
};

}  // namespace

int spawn_ranks(const std::vector<std::string>& command, int ranks, Starter starter, const MpirunLimits& limits,
                bool* stopped) {
  if (starter == Starter::mpirun) check_session_folder(session_folder());
  Ranks all(command, ranks, starter, limits);
  const int code = all.run();
  if (stopped) *stopped = all.was_stopped();
  return code;
}

}  // namespace llmc
