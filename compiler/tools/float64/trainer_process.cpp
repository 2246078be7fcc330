#include "compiler/tools/float64/trainer_process.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "error.h"
#include "files/durable_file.h"

extern char** environ;

namespace llmc::float64 {

TrainerProcess::TrainerProcess(const std::vector<std::string>& argv, const std::filesystem::path& log) {
  const int output = open_own_file(log, O_WRONLY | O_TRUNC, {Exit::usage, "-o"});
  int ends[2];
  const auto refuse = [&](int error) {
    close(output);
    throw Failure(Exit::toolchain, "cannot run " + argv[0] + ": " + std::strerror(error));
  };
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) refuse(errno);
  socket_ = ends[0];
  fcntl(ends[1], F_SETFD, 0);  // the trainer inherits its end
  std::string variable = std::string(kProbeVariable) + "=" + std::to_string(ends[1]);
  std::vector<char*> words, environment;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  for (char** entry = environ; *entry; ++entry) environment.push_back(*entry);
  environment.push_back(variable.data());
  environment.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  const int error = posix_spawn(&child_, words[0], &actions, nullptr, words.data(), environment.data());
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  if (error == 0) {
    close(output);
    return;
  }
  child_ = -1;
  close(socket_);
  refuse(error);
}

TrainerProcess::~TrainerProcess() {
  close(socket_);
  if (child_ < 0) return;
  kill(child_, SIGKILL);
  wait();
}

bool TrainerProcess::receive(void* data, std::size_t bytes) {
  auto* to = static_cast<std::byte*>(data);
  while (bytes > 0) {
    const ssize_t got = recv(socket_, to, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

void TrainerProcess::send(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const std::byte*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(socket_, from, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) throw Failure(Exit::internal, "the trainer ended while llmc verified it");
    from += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
}

std::optional<ProbeEvent> TrainerProcess::next() {
  ProbeEvent event;
  if (!receive(&event, sizeof event)) return std::nullopt;
  return event;
}

void TrainerProcess::read(std::size_t operand, std::int64_t offset, std::span<std::byte> bytes) {
  const ProbeRequest request{ProbeRequest::read, static_cast<std::int32_t>(operand), offset,
                             static_cast<std::int64_t>(bytes.size())};
  send(&request, sizeof request);
  if (!receive(bytes.data(), bytes.size())) throw Failure(Exit::internal, "the trainer ended while llmc verified it");
}

void TrainerProcess::write(std::size_t operand, std::int64_t offset, std::span<const std::byte> bytes) {
  const ProbeRequest request{ProbeRequest::write, static_cast<std::int32_t>(operand), offset,
                             static_cast<std::int64_t>(bytes.size())};
  send(&request, sizeof request);
  send(bytes.data(), bytes.size());
}

void TrainerProcess::go_on() {
  const ProbeRequest request{ProbeRequest::go_on, 0, 0, 0};
  send(&request, sizeof request);
}

int TrainerProcess::wait() {
  if (child_ < 0) return 0;
  int status = 0;
  while (waitpid(child_, &status, 0) < 0 && errno == EINTR) {
  }
  child_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace llmc::float64
