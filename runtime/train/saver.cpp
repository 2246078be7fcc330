#include "train/saver.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "checkpoint/retention.h"
#include "comm/collectives.h"
#include "error.h"
#include "host/clock.h"
#include "train/after_save.h"

namespace llmc {

namespace {

constexpr double kBytesPerSecond = 100e6;  // of a slow disk

/// Estimates the seconds of writing a checkpoint.
double writing_seconds(Session& session) {
  return static_cast<double>(checkpoint_bytes(session.info().parameters, session.state().buffers())) / kBytesPerSecond;
}

}  // namespace

Saver::Saver(const spec::Spec& values, const CheckpointTexts& texts, Session& session, const std::filesystem::path& run,
             RunFolder* folder, const RunMirror* mirror, Console& console, Rendezvous& ranks, const TrainState& state,
             const LongestSaves& longest, bool failed)
    : values_(values),
      texts_(texts),
      session_(session),
      run_(run),
      folder_(folder),
      mirror_(mirror),
      console_(console),
      ranks_(ranks),
      best_(record_at(state)),
      failed_(failed),
      longest_(longest.save > 0 ? longest.save : writing_seconds(session)),
      longest_follow_up_(mirror ? std::max(longest.follow_up, writing_seconds(session)) : longest.follow_up) {}

/// Best loss that the run has at a checkpoint. Uses one rank's view of the disk for all ranks.
std::optional<Best> Saver::record_at(const TrainState& state) {
  const std::string& set = values_.checkpoint.best;
  const auto found = best_of_run(run_, set, state.step, state.best);
  const std::string text = ranks_.broadcast(found ? fmt::format("{} {:a}", found->step, found->loss) : "", 0);
  Best best{0, set, 0};
  long long step = 0;
  if (std::sscanf(text.c_str(), "%lld %la", &step, &best.loss) != 2) return std::nullopt;
  best.step = step;
  return best;
}

void Saver::go_back(const TrainState& state) {
  best_ = record_at(state);
  candidate_.reset();
  failed_ = false;
}

bool Saver::is_best(std::int64_t step, double loss) const {
  const std::optional<Best>& best = in_flight() && candidate_ ? candidate_ : best_;
  // A record of a later step was abandoned by a rollback.
  return std::isfinite(loss) && (!best || best->step >= step || loss < best->loss);
}

/// Returns whether there is memory for a snapshot, which is allocated on first use.
bool Saver::snapshots() {
  if (!values_.checkpoint.asynchronous || no_memory_) return false;
  if (snapshot_) return true;
  const WorldRank self = session_.mesh().world;
  const std::span<const SavedBuffer> buffers = session_.state().buffers();
  const std::span<const ParameterInfo> parameters = session_.info().parameters;
  const std::size_t most = Snapshot::most_bytes(parameters, buffers, self, kShardBytes);
  std::byte* memory = nullptr;
  if (session_.fits_beside(most, static_cast<std::size_t>(values_.memory.budget))) {
    try {
      memory = session_.allocate_host(Snapshot::bytes(parameters, buffers, self, kShardBytes));
    } catch (const Failure& failure) {
      console_.warning(fmt::format("{}: training waits for each checkpoint", failure.what()));
    }
  }
  // All ranks must make the same choice.
  for (const std::string& other : ranks_.all_gather(memory ? "+" : "-")) no_memory_ |= other == "-";
  if (no_memory_) return false;
  snapshot_.emplace(parameters, buffers, self, kShardBytes, memory);
  return true;
}

SaveOptions Saver::options() {
  SaveOptions options;
  options.savers = {session_.mesh().world, [this](const std::string& mine) { return ranks_.all_gather(mine); }};
  options.prepare = [this] {
    if (folder_->renew())
      console_.warning(
          fmt::format("'{}' was removed while the run was training. It is recreated with a checkpoint of step {}, but "
                      "the metrics, samples and checkpoints from before are lost",
                      run_.string(), state_.step));
  };
  options.read_back = values_.checkpoint.verify;
  return options;
}

void Saver::follow_up() {
  const double begin = process_seconds();
  follow_save(*folder_, mirror_, values_.checkpoint, {state_.step, state_.best, keep_before_},
              [this](const std::string& line) { notes_.push_back(line); });
  longest_follow_up_ = std::max(longest_follow_up_.load(), process_seconds() - begin);
}

/// Rank 0 may still copy to a slow mirror. The others wait here, where waits are unlimited.
void Saver::finish_follow_up() {
  background_.wait();
  ranks_.barrier(Rendezvous::Wait::unlimited);
  say_notes();
}

void Saver::begin(const TrainState& state, bool beside, std::optional<double> loss,
                  const std::vector<std::int64_t>& keep_before) {
  finish();
  finish_follow_up();
  failed_ = false;
  state_ = state;
  keep_before_ = keep_before;
  candidate_.reset();
  if (loss && is_best(state.step, *loss)) candidate_ = {state.step, values_.checkpoint.best, *loss};
  state_.best = candidate_ ? candidate_ : best_;
  error_.clear();
  began_ = process_seconds();
  try {
    const bool copies = beside && snapshots();
    save_.emplace(run_, state_, texts_, session_.info().parameters, session_.state().buffers(), options());
    if (copies)
      snapshot_->take(session_.state());
    else
      save_->write(session_.state());
    background_.start([this, copies] {
      if (copies) save_->write(*snapshot_);
      ended_ = process_seconds();
      if (!alone()) return;  // the remaining steps need all ranks
      try {
        save_->settle();
        save_->publish();
        save_->finish();
        ended_ = process_seconds();
      } catch (const std::exception& failure) {
        error_ = failure.what();
        return;
      }
      follow_up();
    });
    if (!copies) finish();
  } catch (const std::exception& failure) {  // std::filesystem throws its own exceptions
    // With several ranks, an unexpected error of one must end it, because the others are waiting.
    const auto* known = dynamic_cast<const Failure*>(&failure);
    if (!alone() && !(known && known->code() == Exit::checkpoint)) throw;
    fail(failure.what());
  }
}

void Saver::fail(const std::string& why) {
  console_.warning(fmt::format("CHECKPOINT FAILED at step {}: {}", state_.step, why));
  save_.reset();
  failed_ = true;
}

void Saver::say_notes() {
  for (const std::string& line : std::exchange(notes_, {})) console_.warning(line);
}

void Saver::finish() {
  if (!in_flight()) return;
  background_.wait();
  if (!alone()) {
    try {
      save_->settle();
      save_->publish();
      save_->finish();
    } catch (const Failure& failure) {
      if (failure.code() != Exit::checkpoint) throw;
      error_ = failure.what();
    }
    if (error_.empty() && folder_) background_.start([this] { follow_up(); });
  }
  longest_ = std::max(longest_, ended_ - began_);
  if (!error_.empty()) return fail(error_);
  save_.reset();
  if (candidate_) best_ = candidate_;
  console_.text(fmt::format("saved {}", (checkpoints_directory(run_) / checkpoint_name(state_.step)).string()));
  if (alone()) say_notes();
}

void Saver::rest() {
  finish();
  finish_follow_up();
}

}  // namespace llmc
