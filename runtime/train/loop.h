// The training loop: steps, and between them what is logged, evaluated, sampled and saved.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "comm/rendezvous.h"
#include "data/loader.h"
#include "run/history.h"
#include "run/run_folder.h"
#include "run/trace.h"
#include "step/session.h"
#include "text/console.h"
#include "train/audit.h"
#include "train/evaluation.h"
#include "train/first_loss.h"
#include "train/guards.h"
#include "train/sampling.h"
#include "train/saver.h"
#include "train/schedule.h"
#include "train/signals.h"
#include "trainer/options.h"

namespace llmc {

/// What a run is made of; all of it outlives the loop.
struct Run {
  const spec::Spec& values;
  const CheckpointTexts& texts;
  Session& session;
  std::unique_ptr<Loader>& loader;
  std::function<std::unique_ptr<Loader>(const DataPosition&)> open_loader;  // another, that begins there
  const std::filesystem::path& path;                                        // of the run folder
  RunFolder* folder;                                                        // null: another rank's
  const RunMirror* mirror;                                                  // null: another rank's, or none
  Console& console;
  Rendezvous& ranks;
  SignalWatch& signals;
  std::span<Evaluation> evaluation;                       // each validation set; empty: none
  Audit* audit;                                           // null: none
  const Sampling* sampling;                               // null: none
  TraceWriter* trace;                                     // null: none
  std::int64_t stop;                                      // last step, at most values.schedule.steps
  std::optional<StepWindow> profile;                      // within the steps of this run
  Timeline* timeline;                                     // null: none
  const HistoryEntry& start;                              // the line of this start
  std::function<std::string(std::uint64_t)> sample_text;  // how a sample begins; empty: not to be shown
  std::optional<double> peak;                             // FLOP/s of a device, where that is known
  std::optional<double> product_flops;                    // FLOP/s of all devices' products, where that was measured
  std::optional<FirstLoss> first_loss;                    // of a run whose weights were drawn at this start
  bool final_checkpoint;  // whether the last step is saved when nothing else asks for it
  double deadline;        // process_seconds() by which everything is saved; 0: none
  double seconds_before;  // of the starts that this one goes on from
};

class TrainLoop {
 public:
  TrainLoop(const Run& run, const TrainState& start)
      : run_(run),
        state_(start),
        saver_(run.values, run.texts, run.session, run.path, run.folder, run.mirror, run.console, run.ranks, start),
        guard_(run.values.guards, run.values.optimizer.clip_norm, start.guard),
        frozen_(run.values.guards.frozen_steps, run.values.guards.frozen_change) {}

  /// Trains up to run.stop. Returns the signal that stopped it earlier, with everything saved, else 0; kDeadline where
  /// the deadline did, kOtherRank where another rank has got a signal.
  /// Throws SharedFailure(numerics) after too many skipped updates, Failure(checkpoint) when the last state could not
  /// be saved, Failure(data) when the loader fails.
  int run();
  static constexpr int kOtherRank = -1, kDeadline = -2;

  const TrainState& state() const { return state_; }
  const std::vector<double>& step_seconds() const { return step_seconds_; }
  /// Since the start of the process, at the end of the first step.
  double first_step_end() const { return first_step_end_; }

 private:
  /// A step that the device works on or has done: what its report needs.
  struct Sent {
    double lr;
    std::vector<std::uint64_t> sample_ids;
    std::int64_t targets;   // trained on in the step
    DataPosition position;  // after it
    StepLimits limits;
    double begin;
    double data_wait;  // seconds
    std::optional<Audited> audited;
  };

  bool many_ranks() const;
  /// What this rank tells the others with the next step.
  float requests();
  /// Why this rank would stop: a signal, the deadline, or 0.
  int own_reason() const;
  int stop_signal() const;
  int train();
  bool stays_alone(std::int64_t step) const;
  void send();
  void finish();
  std::string where_not_finite();
  void observe();
  void report(bool last);
  /// What fails is a warning: neither a full disk nor what is only looked at may end a run.
  void write_timeline();
  /// Throws SharedFailure(numerics) where it cannot, or may not.
  void go_back(const std::string& why);
  /// `line`: where a line of progress stays; `norms`: with those of the parameters.
  void log_step(bool line, bool norms);
  void show_progress(bool keep);
  void evaluate();
  void sample();
  /// Throws SharedFailure(numerics) where a rank has drifted from the others.
  void compare();
  void save(bool beside);
  /// Says what came of the save in flight.
  void finish_save();
  /// Of this step and a set: its loss, where it was evaluated.
  std::optional<double> loss_of(const std::string& set) const;
  /// Of this step and the set that checkpoint.best names.
  std::optional<double> best_loss() const;
  bool due(std::int64_t every, std::int64_t step) const {
    return every > 0 && (step == run_.stop || step % every == 0);
  }
  bool save_due() const {
    const std::int64_t every = run_.values.checkpoint.every;
    return (run_.final_checkpoint && state_.step == run_.stop) || (every > 0 && state_.step % every == 0);
  }
  double epochs() const;
  /// Of work on so many tokens a second; nothing where no peak is known.
  std::optional<double> mfu(double tokens_per_second) const;
  /// The same of what products reach on these devices; nothing where that was not measured.
  std::optional<double> product_share(double tokens_per_second) const;
  double left_seconds() const;

  Run run_;
  TrainState state_;
  Saver saver_;
  Guard guard_;
  FrozenLoss frozen_;
  StepBatch batch_;
  std::deque<Sent> sent_;  // steps state_.step + 1 and, ahead of its results, the next
  Sent done_{};            // the last one that is finished, and its results
  Session::Finished finished_{};
  double done_at_ = 0;
  std::vector<Validation> validation_;        // of this step, in the order of the sets; empty: none
  std::optional<double> evaluation_seconds_;  // of this step
  std::optional<double> saving_seconds_;      // since the last line of metrics
  std::vector<double> step_seconds_;
  double first_step_end_ = 0, began_ = 0, shown_ = 0;
  double turn_began_ = 0, longest_turn_ = 0;  // from one step's end to the next, with all that is between
  /// The steps since the last line of progress that stays.
  struct Recent {
    std::int64_t steps = 0, tokens = 0, all_tokens = 0;  // all: with those that have no target
    double seconds = 0, sum = 0, largest = 0;            // losses: of the steps whose loss is finite
  } recent_;
  bool log_broken_ = false;  // the last line could not be written
  // By any of many ranks, as of the last step that is finished.
  bool stop_asked_ = false, save_asked_ = false, finish_asked_ = false;
};

}  // namespace llmc
