#include "train/signals.h"

#include <unistd.h>

#include <atomic>

namespace llmc {
namespace {

// A handler can reach nothing but these; any thread may run it.
std::atomic<int> stop{0};
std::atomic<bool> save{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

void on_stop(int signal) {
  int none = 0;
  if (!stop.compare_exchange_strong(none, signal)) _exit(128 + signal);
}

void on_save(int) { save = true; }

}  // namespace

SignalWatch::SignalWatch() {
  stop = 0;
  save = false;
  const auto install = [&](int signal, void (*handler)(int)) {
    struct sigaction action{};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    Former former{signal, {}};
    sigaction(signal, &action, &former.action);
    former_.push_back(former);
  };
  for (int signal : {SIGTERM, SIGINT, SIGUSR2}) install(signal, on_stop);
  // A closed terminal; whoever ignores that (nohup) wants the run to go on.
  struct sigaction hang_up{};
  if (sigaction(SIGHUP, nullptr, &hang_up) == 0 && hang_up.sa_handler != SIG_IGN) install(SIGHUP, on_stop);
  install(SIGUSR1, on_save);
}

SignalWatch::~SignalWatch() {
  for (const Former& former : former_) sigaction(former.signal, &former.action, nullptr);
}

int SignalWatch::stop_signal() const { return stop; }
bool SignalWatch::take_save_request() { return save.exchange(false); }

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
