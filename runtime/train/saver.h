// When and how a run's state is saved: beside training where there is memory for a snapshot of it, else at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/best.h"
#include "checkpoint/save.h"
#include "checkpoint/snapshot.h"
#include "comm/collectives.h"
#include "comm/rendezvous.h"
#include "run/run_folder.h"
#include "run/run_mirror.h"
#include "step/session.h"
#include "text/console.h"
#include "train/background.h"

namespace llmc {

/// One save at a time is in flight. All ranks of a run make the same calls.
class Saver {
 public:
  /// All of these outlive it; `folder` is null on other ranks than the first, and `mirror` where there is none.
  /// `state`: that the run goes on from. Collective.
  Saver(const spec::Spec& values, const CheckpointTexts& texts, Session& session, const std::filesystem::path& run,
        RunFolder* folder, const RunMirror* mirror, Console& console, Rendezvous& ranks, const TrainState& state);
  /// Gives up what several ranks write; what one writes is finished.
  ~Saver() = default;

  /// Begins to save the state between two steps, when the save before is finished, which it waits for. `beside`: goes
  /// on beside training where there is memory for it; otherwise everything is done on return. `loss`: of the
  /// validation set of checkpoint.best at this step; `keep_before`: as Retention's. Collective.
  void begin(const TrainState& state, bool beside, std::optional<double> loss,
             const std::vector<std::int64_t>& keep_before);
  bool in_flight() const { return save_.has_value(); }
  /// Whether this rank has done its part of the save that is in flight.
  bool written() const { return !background_.busy(); }
  /// Waits for the save that is in flight, and says what came of it. Of several ranks the first goes on beside training
  /// with what follows a checkpoint: mirror and retention. Collective.
  void finish();
  /// finish(), and waits for what follows: nothing of a save touches the run's folder or its mirror from then on.
  void rest();
  /// When the run has gone back to `state`, that of a checkpoint of its own: the record of the best is that one's.
  /// Collective.
  void go_back(const TrainState& state);
  /// Whether the save that was finished last failed.
  bool failed() const { return failed_; }

  /// Whether this is the lowest loss that checkpoint.best has seen.
  bool is_best(std::int64_t step, double loss) const;

  /// The longest that a save has taken, or the first is thought to take.
  double longest_seconds() const { return longest_; }

 private:
  bool alone() const { return session_.mesh().world.size == 1; }
  std::optional<Best> record_at(const TrainState& state);
  bool snapshots();
  SaveOptions options();
  /// What follows a checkpoint that has appeared. Of rank 0.
  void follow_up();
  void fail(const std::string& why);
  void say_notes();

  const spec::Spec& values_;
  const CheckpointTexts& texts_;
  Session& session_;
  const std::filesystem::path run_;
  RunFolder* const folder_;
  const RunMirror* const mirror_;
  Console& console_;
  Rendezvous& ranks_;

  std::optional<Best> best_;  // what checkpoint.best has, without the save in flight
  std::optional<Snapshot> snapshot_;
  bool no_memory_ = false;  // for it

  // Of the save in flight; the background has them until it is done.
  std::optional<CheckpointSave> save_;
  TrainState state_;
  std::optional<Best> candidate_;  // where it is the best
  std::vector<std::int64_t> keep_before_;
  std::string error_;               // alone: what it failed by
  std::vector<std::string> notes_;  // to be said
  double began_ = 0, ended_ = 0;

  bool failed_ = false;
  double longest_;
  Background background_;  // goes first
};

}  // namespace llmc
