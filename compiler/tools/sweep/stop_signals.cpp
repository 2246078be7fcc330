#include "compiler/tools/sweep/stop_signals.h"

namespace llmc::sweep {

namespace {

volatile std::sig_atomic_t last = 0;

void note(int signal) { last = signal; }

}  // namespace

StopSignals::StopSignals() {
  last = 0;
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    Former former{signal, {}};
    if (sigaction(signal, nullptr, &former.action) != 0 || former.action.sa_handler == SIG_IGN) continue;
    struct sigaction action{};
    action.sa_handler = note;
    action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;
    sigaction(signal, &action, nullptr);
    former_.push_back(former);
  }
}

StopSignals::~StopSignals() {
  for (const Former& former : former_) sigaction(former.signal, &former.action, nullptr);
}

int StopSignals::received() const { return last; }

}  // namespace llmc::sweep
