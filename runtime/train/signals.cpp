#include "train/signals.h"

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <ctime>

#include "comm/requests.h"
#include "host/ignored_signal.h"

namespace llmc {
namespace {

// Signal handlers reach only these, on any thread.
std::atomic<std::int64_t> asked_to_stop{0}, asked_to_save{0};  // when, in milliseconds; 0: not yet
std::atomic<int> stop{0};
std::atomic<bool> save{false}, launched{false};
std::atomic<pid_t> parent{0};  // at the start
static_assert(std::atomic<std::int64_t>::is_always_lock_free && std::atomic<int>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free && std::atomic<pid_t>::is_always_lock_free);

std::int64_t milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * std::int64_t{1000} + now.tv_nsec / 1000000 + 1;
}

/// Returns whether the kernel sent the signal because the parent died (PR_SET_PDEATHSIG), or the parent's own one
/// because the launcher did.
bool tells_of_a_death(const siginfo_t& info) {
  return info.si_code == SI_USER && info.si_pid == parent && (launched || getppid() != parent);
}

/// Returns whether a signal that arrived at `now` is a second request after one at `before`.
bool asks_again(const siginfo_t& info, std::int64_t before, std::int64_t now) {
  if (info.si_code == SI_QUEUE) return info.si_value.sival_int == static_cast<int>(PassedOn::again);
  return now - before >= kSameRequest.count() && !tells_of_a_death(info);
}

void on_stop(int signal, siginfo_t* info, void*) {
  std::int64_t before = 0;
  const std::int64_t now = milliseconds();
  if (asked_to_stop.compare_exchange_strong(before, now))
    stop = signal;
  else if (asks_again(*info, before, now))
    _exit(128 + signal);
}

void on_save(int, siginfo_t*, void*) {
  std::int64_t before = asked_to_save;
  const std::int64_t now = milliseconds();
  if (before != 0 && now - before < kSameRequest.count()) return;
  if (asked_to_save.compare_exchange_strong(before, now)) save = true;
}

}  // namespace

SignalWatch::SignalWatch(bool of_launcher) {
  asked_to_stop = asked_to_save = 0;
  stop = 0;
  save = false;
  launched = of_launcher;
  parent = getppid();
  const auto install = [&](int signal, void (*handler)(int, siginfo_t*, void*)) {
    struct sigaction action{};
    action.sa_sigaction = handler;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    Former former{signal, {}};
    sigaction(signal, &action, &former.action);
    former_.push_back(former);
  };
  for (int signal : {SIGTERM, SIGINT, SIGUSR2}) install(signal, on_stop);
  // Sent when the terminal closes. If it is ignored (nohup), the run is meant to continue.
  if (!is_ignored(SIGHUP)) install(SIGHUP, on_stop);
  install(SIGUSR1, on_save);
}

SignalWatch::~SignalWatch() {
  for (const Former& former : former_) sigaction(former.signal, &former.action, nullptr);
}

int SignalWatch::stop_signal() const { return stop; }
bool SignalWatch::take_save_request() { return save.exchange(false); }

void SignalWatch::join_save_request() {
  asked_to_save = milliseconds();
  save = false;
}

const char* signal_name(int signal) {
  switch (signal) {
    case SIGTERM: return "SIGTERM";
    case SIGINT: return "SIGINT";
    case SIGHUP: return "SIGHUP";
    case SIGUSR2: return "SIGUSR2";
    default: return "a signal";
  }
}

}  // namespace llmc
