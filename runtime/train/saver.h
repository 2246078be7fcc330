// Decides when and how a run's state is saved: concurrently with training if a snapshot fits into memory, else
// synchronously.
#pragma once

#include <atomic>
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

/// Seconds that a save took at most until its checkpoint was published, and the work after that; 0: none so far.
struct LongestSaves {
  double save = 0, follow_up = 0;
};

/// One save is in flight at a time. All ranks of a run make the same calls.
class Saver {
 public:
  /// All references outlive the saver. `folder` is null except on rank 0, `mirror` is null if there is none. `state`:
  /// the state that the run resumes from. Collective.
  /// `longest`: of the phases before. Without a save so far, the time of a slow disk is assumed, and at least that for
  /// a copy to the mirror. `failed`: whether the last save of the phases before failed.
  Saver(const spec::Spec& values, const CheckpointTexts& texts, Session& session, const std::filesystem::path& run,
        RunFolder* folder, const RunMirror* mirror, Console& console, Rendezvous& ranks, const TrainState& state,
        const LongestSaves& longest, bool failed);
  /// Abandons a save of several ranks; a save of one rank is completed.
  ~Saver() = default;

  /// Waits for the previous save, then starts saving the state between two steps. `beside`: write concurrently with
  /// training if there is memory for a snapshot; otherwise the save is complete on return. `loss`: on the validation
  /// set of checkpoint.best at this step. `keep_before`: as in Retention. Collective.
  void begin(const TrainState& state, bool beside, std::optional<double> loss,
             const std::vector<std::int64_t>& keep_before);
  bool in_flight() const { return save_.has_value(); }
  /// Returns whether this rank has finished its part of the save in flight.
  bool written() const { return !background_.busy(); }
  /// Waits for the save in flight and reports its result. With several ranks, rank 0 then updates the mirror and
  /// applies retention concurrently with training. Collective.
  void finish();
  /// Calls finish(), waits until mirror and retention are done, and reports their failures. Afterwards nothing writes
  /// to the run's folder or its mirror. Collective.
  void rest();
  /// Restores the best loss recorded in a checkpoint, and forgets a failed save. Call it after a rollback; `state` is
  /// that checkpoint's. Collective.
  void go_back(const TrainState& state);
  /// Returns whether the last finished save failed.
  bool failed() const { return failed_; }

  /// Returns whether this is the lowest loss so far for checkpoint.best.
  bool is_best(std::int64_t step, double loss) const;

  /// Record for checkpoint.best, without the save in flight.
  const std::optional<Best>& best() const { return best_; }
  LongestSaves longest() const { return {longest_, longest_follow_up_}; }

 private:
  bool alone() const { return session_.mesh().world.size == 1; }
  std::optional<Best> record_at(const TrainState& state);
  bool snapshots();
  SaveOptions options();
  /// Work after a checkpoint has been published (after_save.h). Rank 0 only.
  void follow_up();
  void finish_follow_up();
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

  std::optional<Best> best_;  // see best()
  std::optional<Snapshot> snapshot_;
  bool no_memory_ = false;  // no memory for a snapshot

  // State of the save in flight; the background thread uses it until it is done.
  std::optional<CheckpointSave> save_;
  TrainState state_;
  std::optional<Best> candidate_;  // record of this save, if it is the best
  std::vector<std::int64_t> keep_before_;
  std::string error_;               // one rank only: error of the background thread
  std::vector<std::string> notes_;  // to be printed by the main thread
  double began_ = 0, ended_ = 0;

  bool failed_;
  double longest_;
  std::atomic<double> longest_follow_up_;  // of rank 0; also written by the background thread
  Background background_;                  // destroyed first
};

}  // namespace llmc
