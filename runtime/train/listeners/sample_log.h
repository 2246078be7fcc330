// Generates samples from the model every sampling.every steps, shows and logs them.
#pragma once

#include <cstdint>

#include "comm/rendezvous.h"
#include "run/run_folder.h"
#include "step/session.h"
#include "text/console.h"
#include "train/due.h"
#include "train/listeners/listener.h"
#include "train/sampling.h"
#include "train/signals.h"

namespace llmc {

class SampleLog final : public StepListener {
 public:
  struct Of {
    const Sampling& sampling;
    Session& session;
    Rendezvous& ranks;
    RunFolder* folder;  // null: another rank's
    Console& console;
    const SignalWatch& signals;
    std::int64_t every, stop;  // steps
  };
  explicit SampleLog(const Of& of) : of_(of) {}

  bool holds(std::int64_t step) const override { return due(of_.every, step, of_.stop); }
  void reported(const StepReport& report) override;

 private:
  void sample(std::int64_t step);

  Of of_;
};

}  // namespace llmc
