// The training loop: steps, guards, evaluation and saves. Logging and display are listeners of its steps.
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
#include "spec/length/schedule.h"
#include "step/session.h"
#include "text/console.h"
#include "train/audit.h"
#include "train/due.h"
#include "train/evaluation.h"
#include "train/first_loss.h"
#include "train/guards.h"
#include "train/listeners/listener.h"
#include "train/plateau.h"
#include "train/rollback.h"
#include "train/saver.h"
#include "train/signals.h"
#include "train/task.h"

namespace llmc {

/// Steps [first, last) of one phase, and the first one of the trainer that a rollback may go back to.
struct PhaseSteps {
  std::int64_t first, last, earliest;
};

/// State that a loop takes from that of the phase before: the most seconds that a step took, everything included, those
/// of saves (0: none so far), and whether the last save failed.
struct FromPhaseBefore {
  double longest_turn = 0;
  LongestSaves longest_saves = {};
  bool save_failed = false;
};

/// Inputs of a run, or of one of its phases; all of them outlive the loop.
struct LoopInputs {
  const spec::Spec& values;
  const CheckpointTexts& texts;
  Session& session;
  std::unique_ptr<Loader>& loader;
  std::function<std::unique_ptr<Loader>(const DataPosition&)> open_loader;  // opens another loader at a position
  ResumeAt resume_at;                                                       // for a rollback
  const std::filesystem::path& path;                                        // of the run folder
  RunFolder* folder;                                                        // null: another rank's
  const RunMirror* mirror;                                                  // null: another rank's, or none
  Console& console;
  Rendezvous& ranks;
  SignalWatch& signals;
  std::span<Evaluation> evaluation;          // one per validation set; empty: none
  std::span<const TaskEvaluation> tasks;     // answered with them
  Audit* audit;                              // null: none
  TraceWriter* trace;                        // null: none
  std::span<StepListener* const> listeners;  // called in this order
  std::int64_t stop;                         // last step, at most values.schedule.steps
  PhaseSteps phase;                          // steps that are trained with these values
  const HistoryEntry& start;                 // history entry of this start
  std::span<const std::int64_t> borders;     // whose checkpoints are kept: another trainer goes on from them
  SampleNames sample_names;
  std::function<std::string(SampleId)> sample_text;  // beginning of a sample's text; empty: not shown
  std::optional<FirstLoss> first_loss;               // if the weights were initialised at random by this start
  bool final_checkpoint;                             // whether to save the last step if nothing else requests it
  double deadline;                                   // process_seconds() by which everything must be saved; 0: none
  FromPhaseBefore before = {};
};

class TrainLoop {
 public:
  TrainLoop(const LoopInputs& run, const TrainState& start)
      : run_(run),
        state_(start),
        saver_(run.values, run.texts, run.session, run.path, run.folder, run.mirror, run.console, run.ranks, start,
               run.before.longest_saves, run.before.save_failed),
        guard_(run.values.guards, run.values.optimizer.clip_norm, start.guard),
        frozen_(run.values.guards.frozen_steps, run.values.guards.frozen_change),
        plateau_(run.values.guards.plateau, start.guard.plateau),
        longest_turn_(run.before.longest_turn) {
    if (start.updates() > 0)
      run_.session.set_updates(start.updates());  // otherwise the arena's initial zero is
                                                  // correct
    if (start.loss_scale) run_.session.set_loss_scale(*start.loss_scale);
  }

  /// Trains up to run.phase.last and returns 0, or earlier if a rollback has left the phase. If stopped earlier,
  /// everything is saved and it returns the signal, kDeadline for the deadline, or kOtherRank for a signal on another
  /// rank. Throws SharedFailure(numerics) after too many skipped updates, Failure(checkpoint) if the last state of
  /// the process could not be saved, Failure(data) if the loader fails.
  int run();
  static constexpr int kOtherRank = -1, kDeadline = -2;

  const TrainState& state() const { return state_; }
  FromPhaseBefore for_next_phase() const { return {longest_turn_, saver_.longest(), saver_.failed()}; }
  /// Saves the state between two phases, unless that has been done: what follows cannot begin. Every rank calls it.
  void keep();

 private:
  /// A step in flight or just finished, with the values that its report needs.
  struct Sent {
    double lr;
    std::vector<SampleId> sample_ids;
    std::int64_t targets;   // trained on in this step
    DataPosition position;  // after it
    StepLimits limits;
    double begin;
    double data_wait;  // seconds
    std::optional<Audited> audited;
    double seconds = 0;  // duration, once finished
  };

  bool many_ranks() const;
  /// Requests that this rank sends to the others with the next step.
  float requests();
  /// This rank's reason to stop: a signal, the deadline, or 0.
  int own_reason() const;
  int stop_signal() const;
  int train();
  bool stays_alone(std::int64_t step) const;
  void send();
  void finish();
  std::string where_not_finite();
  void observe();
  void check_first_loss();
  FinishedStep finished_step() const;
  void report();
  /// Copies the state of the guards to that of the run.
  void note_guards();
  /// Rolls back. Throws SharedFailure(numerics) if it cannot or is not allowed to.
  void go_back(const std::string& why);
  void evaluate();
  /// Throws SharedFailure(numerics) if a rank has drifted from the others.
  void compare();
  void save(bool beside);
  /// Reports the result of the save in flight.
  void finish_save();
  /// Waits until nothing of the last save is left to do, which a slow mirror delays.
  void complete_saves();
  /// Loss of this step on the set that checkpoint.best names.
  std::optional<double> best_loss() const;
  bool due(std::int64_t every, std::int64_t step) const { return llmc::due(every, step, run_.stop); }
  bool save_due() const {
    const std::int64_t every = run_.values.checkpoint.every;
    return (run_.final_checkpoint && state_.step == run_.stop) || (every > 0 && state_.step % every == 0);
  }

  LoopInputs run_;
  TrainState state_;
  Saver saver_;
  Guard guard_;
  FrozenLoss frozen_;
  Plateau plateau_;
  StepBatch batch_;
  std::deque<Sent> sent_;  // step state_.step + 1 and, sent ahead, the one after it
  Sent done_{};            // the last finished step and its results
  Session::Finished finished_{};
  double done_at_ = 0;
  std::vector<Validation> validation_;    // of this step, in the order of the sets; empty: none
  std::vector<TaskResult> answers_;       // of this step, in the order of the tasks; empty: none
  std::optional<double> saving_seconds_;  // since the last report
  std::int64_t of_start_ = 0;             // steps finished since this start
  std::int64_t saved_ = -1;               // step of the last save of this loop, or that a rollback led to
  double turn_began_ = 0, longest_turn_;  // time of one loop iteration, everything included
  // Requested by any rank, as of the last finished step.
  bool stop_asked_ = false, save_asked_ = false, finish_asked_ = false;
};

}  // namespace llmc
