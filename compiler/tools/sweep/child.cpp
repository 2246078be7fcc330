#include "compiler/tools/sweep/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

#include "error.h"
#include "files/durable_file.h"
#include "host/ignored_signal.h"

namespace llmc::sweep {

namespace {

/// Signals that ask for an end.
constexpr int kRequests[] = {SIGTERM, SIGINT, SIGHUP};

/// Holds requests back while a child is between fork and exec, where this process's handlers would swallow them.
class RequestsHeld {
 public:
  RequestsHeld() {
    sigset_t requests;
    sigemptyset(&requests);
    for (const int signal : kRequests) sigaddset(&requests, signal);
    pthread_sigmask(SIG_BLOCK, &requests, &before_);
  }
  ~RequestsHeld() { release(); }
  RequestsHeld(const RequestsHeld&) = delete;
  RequestsHeld& operator=(const RequestsHeld&) = delete;
  void release() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

/// Runs in the child between fork and exec, and calls only functions that are safe there. Returns only if exec fails.
void become(char* const* argv, int log, pid_t parent, const RequestsHeld& requests) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) return;  // it ended before the line above
  for (const int signal : kRequests)
    if (!is_ignored(signal)) std::signal(signal, SIG_DFL);
  requests.release();
  const int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(null, 0);
  dup2(log, 1);
  dup2(log, 2);
  execv(argv[0], argv);
}

}  // namespace

Child::Child(const std::vector<std::string>& argv, const std::filesystem::path& log) {
  const int file = open_own_file(log, O_WRONLY | O_APPEND, {Exit::usage, "-o", false});
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = getpid();
  int error = 0;
  {
    const RequestsHeld requests;
    process_ = fork();
    if (process_ == 0) {
      become(words.data(), file, parent, requests);
      _exit(127);
    }
    error = errno;
  }
  close(file);
  if (process_ < 0) throw Failure(Exit::toolchain, "cannot start '" + argv[0] + "': " + std::strerror(error));
}

Child::Child(Child&& other) noexcept : process_(std::exchange(other.process_, -1)), asked_(other.asked_) {}

Child::~Child() {
  if (process_ < 0) return;
  stop();
  while (waitpid(process_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> Child::ended() {
  int status = 0;
  if (waitpid(process_, &status, WNOHANG) != process_) return std::nullopt;
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Child::stop() {
  if (!std::exchange(asked_, true)) kill(process_, SIGTERM);
}

}  // namespace llmc::sweep
