#include "train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/collectives.h"
#include "comm/together.h"
#include "error.h"
#include "host/clock.h"
#include "program/phases.h"
#include "spec/validation_sets.h"
#include "step/replicas.h"
#include "text/plural.h"

namespace llmc {

namespace {

// Ranks sum their requests in one float, which counts exactly up to 2^24: ranks that ask to stop, times kSaveRequest
// ranks that ask to save, and kFinishRequest if rank 0 has written its part of a checkpoint.
constexpr float kStopRequest = 1, kSaveRequest = 1024, kFinishRequest = 1024 * 1024;
static_assert(kSaveRequest > kMostRanks);

// Before a deadline the run reserves kSpareSeconds, and kSpareFactor times the longest step, the longest save and the
// longest work after one.
constexpr double kSpareSeconds = 5, kSpareFactor = 2;

constexpr char kNextSave[] = "training continues and tries to save at the next interval";

}  // namespace

bool TrainLoop::many_ranks() const { return run_.session.mesh().world.size > 1; }

float TrainLoop::requests() {
  if (!many_ranks()) return 0;
  return (own_reason() != 0 ? kStopRequest : 0) + (run_.signals.take_save_request() ? kSaveRequest : 0) +
         (run_.folder && saver_.in_flight() && saver_.written() ? kFinishRequest : 0);
}

int TrainLoop::own_reason() const {
  if (const int signal = run_.signals.stop_signal(); signal != 0) return signal;
  const LongestSaves saves = saver_.longest();
  const double needed = kSpareSeconds + kSpareFactor * (longest_turn_ + saves.save + saves.follow_up);
  return run_.deadline > 0 && process_seconds() + needed >= run_.deadline ? kDeadline : 0;
}

/// Several ranks decide by the requests returned with a step, which are equal on all of them.
int TrainLoop::stop_signal() const {
  const int own = own_reason();
  if (!many_ranks()) return own;
  return !stop_asked_ ? 0 : own != 0 ? own : kOtherRank;
}

/// Returns whether something is due after a step that needs the device in its state after that step, or that starts or
/// ends there.
bool TrainLoop::stays_alone(std::int64_t step) const {
  const auto holds = [step](const StepListener* listener) { return listener->holds(step); };
  return step == run_.phase.last || run_.trace || stop_signal() != 0 || std::ranges::any_of(run_.listeners, holds) ||
         (!run_.evaluation.empty() && due(run_.values.evaluation.every, step)) ||
         due(run_.values.checkpoint.every, step) || (run_.audit && run_.audit->due(step + 1)) ||
         (many_ranks() && due(run_.values.parallel.compare_every, step));
}

void TrainLoop::send() {
  const std::int64_t step = state_.step + static_cast<std::int64_t>(sent_.size());
  for (StepListener* listener : run_.listeners) listener->begins(step + 1);
  double begin = process_seconds();
  batch_ = run_.loader->next(std::move(batch_));
  const double data_wait = process_seconds() - begin;
  std::optional<Audited> audited;
  if (run_.audit && run_.audit->due(step + 1)) {
    run_.ranks.at(step + 1, "auditing the loss");
    audited = run_.audit->run(run_.session, run_.ranks, batch_);
    begin += audited->seconds;
  }
  const spec::Optimizer& optimizer = run_.values.optimizer;
  const double lr = learning_rate(run_.values.schedule, optimizer.lr, step);
  const StepLimits limits = guard_.limits(step + 1);
  sent_.push_back({lr, batch_.sample_ids, batch_.target_count, batch_.end, limits, begin, data_wait, audited});
  run_.ranks.at(step + 1, Rendezvous::kTraining);
  LaunchListener* launches = nullptr;
  bool eager = false;
  for (StepListener* listener : run_.listeners) {
    eager |= listener->eager(step + 1);
    if (LaunchListener* const hears = listener->launches(step + 1)) launches = hears;
  }
  if (launches) run_.session.listen(launches);
  const StepRates rates = {.lr = lr, .weight_decay = weight_decay_left(run_.values.schedule, step)};
  run_.session.send(batch_, optimizer_scalars(optimizer, run_.session.info().groups, rates, state_.updates()),
                    {.clip_norm = static_cast<float>(optimizer.clip_norm),
                     .loss_scale = 0,
                     .requests = requests(),
                     .loss_limit = limits.loss,
                     .grad_norm_limit = limits.grad_norm},
                    step, run_.trace, eager);
  if (launches) run_.session.listen(nullptr);
}

/// A step sent ahead is timed from the end of the previous one.
void TrainLoop::finish() {
  done_ = std::move(sent_.front());
  sent_.pop_front();
  finished_ = run_.session.finish(run_.trace, static_cast<float>(done_.lr));
  const double end = process_seconds();
  done_.seconds = end - std::max(done_.begin, std::exchange(done_at_, end));
  ++of_start_;
  ++state_.step;
  state_.skipped_updates += finished_.results.skipped != kApplied;
  state_.loss_scale = finished_.loss_scale;
  state_.position = done_.position;
  if (many_ranks()) {
    stop_asked_ |= std::fmod(finished_.results.requests, kSaveRequest) >= kStopRequest;
    const bool save_asked = std::fmod(finished_.results.requests, kFinishRequest) >= kSaveRequest;
    if (save_asked) run_.signals.join_save_request();
    save_asked_ |= save_asked;
    finish_asked_ |= finished_.results.requests >= kFinishRequest;
  }
  const FinishedStep step = finished_step();
  for (StepListener* listener : run_.listeners) listener->finished(step);
}

FinishedStep TrainLoop::finished_step() const {
  return {.number = state_.step,
          .of_start = of_start_,
          .seconds = done_.seconds,
          .data_wait = done_.data_wait,
          .lr = done_.lr,
          .targets = done_.targets,
          .samples = done_.sample_ids,
          .position = state_.position,
          .audited = done_.audited,
          .results = finished_.results,
          .figures = finished_.figures,
          .loss_scale = finished_.loss_scale,
          .norms = finished_.norms};
}

/// With several ranks every rank must take part, because the results are summed.
void TrainLoop::evaluate() {
  run_.ranks.at(state_.step, "evaluating");
  const auto interrupted = [&] { return !many_ranks() && run_.signals.stop_signal() != 0; };
  validation_ = evaluate_all(run_.evaluation, run_.session, interrupted);
  if (!validation_.empty()) answers_ = answer_all(run_.tasks, run_.session, interrupted);
}

void TrainLoop::compare() {
  if (!many_ranks() || run_.values.parallel.compare_every == 0) return;
  run_.ranks.at(state_.step, "comparing weights");
  compare_replicas(run_.session, run_.ranks, state_.step);
}

void TrainLoop::save(bool beside) {
  run_.ranks.at(state_.step, "saving");
  const double begin = process_seconds();
  note_guards();
  saver_.begin(state_, beside, best_loss(), kept_before(guard_, run_.borders));
  saving_seconds_ = process_seconds() - begin;
  saved_ = state_.step;
}

void TrainLoop::finish_save() {
  if (!saver_.in_flight()) return;
  run_.ranks.at(state_.step, "saving");
  saver_.finish();
  if (saver_.failed()) run_.console.warning(kNextSave);
  if (!sent_.empty()) run_.ranks.at(state_.step + 1, Rendezvous::kTraining);
}

void TrainLoop::complete_saves() {
  run_.ranks.at(state_.step, "completing the last save");
  saver_.rest();
}

std::optional<double> TrainLoop::best_loss() const {
  if (run_.values.checkpoint.best == "none") return std::nullopt;
  return loss_of(validation_, spec::leading_set(run_.values));
}

/// With several ranks, the ranks where a non-finite value first appeared, if it made the step skip its update; else
/// empty.
std::string TrainLoop::where_not_finite() {
  if (!many_ranks() || finished_.results.skipped != kNotFinite) return {};
  // "l" for a non-finite loss, "w" for non-finite weights. Gathering spreads bad weights to the other ranks, so that
  // every rank's loss may be affected.
  std::string mine = std::isfinite(finished_.own_loss) ? "" : "l";
  if (guard_.in_a_row() == 0 && !run_.session.own_weights_finite()) mine += "w";
  const std::vector<std::string> all = run_.ranks.all_gather(mine);
  const auto with = [&](char letter) {
    std::vector<int> ranks;
    for (std::size_t rank = 0; rank < all.size(); ++rank)
      if (all[rank].find(letter) != std::string::npos) ranks.push_back(static_cast<int>(rank));
    return ranks;
  };
  const std::vector<int> losses = with('l'), weights = with('w');
  std::string text = losses.empty() ? "" : "the loss on " + run_.ranks.names(losses);
  if (!weights.empty()) text += (text.empty() ? "" : ", ") + ("weights of " + run_.ranks.names(weights));
  return text.empty() ? "only gradients" : text;
}

void TrainLoop::observe() {
  const StepResults& results = finished_.results;
  const bool judged = results.skipped != kApplied && results.skipped != kOverflow;
  const std::string samples = judged ? name_samples(done_.sample_ids, run_.sample_names) : "";
  const std::string warning = guard_.observe(state_.step, results, done_.limits, samples, where_not_finite());
  if (!warning.empty()) run_.console.warning(warning);
  if (judged && run_.sample_text)
    for (const SampleId sample : std::span(done_.sample_ids).first(std::min(done_.sample_ids.size(), kNamedSamples)))
      run_.console.warning(
          fmt::format("step {}, sample {}: {}", state_.step, run_.sample_names.of(sample), run_.sample_text(sample)));
  if (done_.audited)
    if (const std::string apart = run_.audit->judge(state_.step, results.loss, done_.audited->loss, results.lse_max);
        !apart.empty())
      run_.console.warning(apart);
  if (const std::string still = frozen_.observe(state_.step, results.loss); !still.empty()) run_.console.warning(still);
  if (results.skipped) return;
  if (const std::string flat = plateau_.observe(state_.step, results.loss, done_.lr, finished_.norms); !flat.empty())
    run_.console.warning(flat);
}

/// For a run whose weights were initialised at random by this start; only after its first step.
void TrainLoop::check_first_loss() {
  const auto expected = std::exchange(run_.first_loss, {});
  if (!expected) return;
  if (const std::string unexpected = first_loss_warning(*expected, finished_.results.loss); !unexpected.empty())
    run_.console.warning(unexpected);
}

void TrainLoop::report() {
  validation_.clear();
  answers_.clear();
  observe();
  check_first_loss();
  const bool evaluates = !run_.evaluation.empty() && due(run_.values.evaluation.every, state_.step);
  std::optional<double> evaluation_seconds;
  if (evaluates) {
    const double begin = process_seconds();
    evaluate();
    if (!validation_.empty()) evaluation_seconds = process_seconds() - begin;
  }
  const StepReport report{.step = finished_step(),
                          .line = due(run_.values.metrics.every, state_.step) || of_start_ == 1,
                          .evaluated = evaluates,
                          .validation = validation_,
                          .answers = answers_,
                          .evaluation_seconds = evaluation_seconds,
                          .saving_seconds = std::exchange(saving_seconds_, {}),
                          .left = !guard_.exhausted().empty()};
  for (StepListener* listener : run_.listeners) listener->reported(report);
}

void TrainLoop::note_guards() {
  state_.guard = guard_.state();
  state_.guard.plateau = plateau_.state();
}

void TrainLoop::go_back(const std::string& why) {
  const spec::Guards& guards = run_.values.guards;
  if (!guards.rollback)
    throw SharedFailure(Exit::numerics,
                        fmt::format("{}. {}. With guards.rollback=true the run rolls back to a checkpoint by itself",
                                    why, guard_.advice()));
  if (guard_.state().rollbacks >= guards.rollbacks)
    throw SharedFailure(Exit::numerics, fmt::format("{}, after {} rollback{} (guards.rollbacks). {}", why,
                                                    guards.rollbacks, plural(guards.rollbacks), guard_.advice()));
  note_guards();
  const TrainState now = state_;
  const std::int64_t left = now.step;
  run_.ranks.at(left, "rolling back to a checkpoint");
  saver_.rest();
  while (!sent_.empty()) finish();  // finishes steps sent ahead; the rollback discards their updates too
  const auto [state, step, refusal] =
      roll_back(run_.path, run_.mirror, run_.folder, now, guard_.first_skipped(), run_.phase.earliest, why, run_.start,
                run_.resume_at, run_.session, run_.ranks, [&](const std::string& line) { run_.console.warning(line); });
  if (!refusal.empty())
    throw SharedFailure(
        Exit::numerics,
        fmt::format("{}. A start from {}, the newest complete checkpoint from before step {}, would be refused: {}. {}",
                    why, checkpoint_name(*step), guard_.first_skipped(), refusal, guard_.advice()));
  if (step && !state)
    throw SharedFailure(
        Exit::numerics,
        fmt::format(
            "{}. The newest complete checkpoint from before step {} is {}, of phase {}, which has another "
            "trainer. To go back there, remove the newer checkpoints from '{}' and start that trainer, or `llmc "
            "run`, with other values. {}",
            why, guard_.first_skipped(), checkpoint_name(*step), phase_after(*step, run_.session.info().phase),
            checkpoints_directory(run_.path).string(), guard_.advice()));
  if (!state)
    throw SharedFailure(Exit::numerics,
                        fmt::format("{}, and there is no complete checkpoint from before step {} to roll back to. {}",
                                    why, guard_.first_skipped(), guard_.advice()));
  run_.console.warning(fmt::format(
      "{}: the run rolls back to step {} and continues with the samples after those of step {} (rollback {} of {})",
      why, state->step, left, state->guard.rollbacks, guards.rollbacks));
  state_ = *state;
  saved_ = state_.step;
  run_.session.set_updates(state_.updates());
  run_.session.set_loss_scale(state_.loss_scale.value_or(LossScale{}));
  saver_.go_back(state_);
  if (state_.step < run_.phase.first) return;  // an earlier phase has guards and data of its own
  guard_ = Guard(guards, run_.values.optimizer.clip_norm, state_.guard);
  plateau_ = Plateau(guards.plateau, state_.guard.plateau);
  run_.loader = run_.open_loader(state_.position);
}

void TrainLoop::keep() {
  if (saved_ != state_.step || saver_.failed()) save(false);
  complete_saves();
}

int TrainLoop::run() try {
  const int signal = train();
  complete_saves();
  if (state_.step >= run_.phase.first) note_guards();  // else those of the checkpoint to which a rollback has led
  state_.best = saver_.best();
  if (signal != 0 || state_.step == run_.stop)
    for (StepListener* listener : run_.listeners) listener->ended();
  return signal;
} catch (const SharedFailure&) {  // an error of all ranks must not lose a save that has begun
  complete_saves();
  throw;
}

int TrainLoop::train() {
  turn_began_ = process_seconds();
  bool asked = false;  // whether a save is requested
  while (state_.step >= run_.phase.first && state_.step < run_.phase.last) {
    if (sent_.empty()) send();
    // The device must always have the next step queued before the host reads the results of this one.
    if (run_.session.runs_ahead() && sent_.size() == 1 && !asked && !stays_alone(state_.step + 1)) send();
    finish();
    report();
    if (const std::string why = guard_.exhausted(); !why.empty()) {
      go_back(why);
      continue;
    }
    if (many_ranks() ? std::exchange(finish_asked_, false) : saver_.written()) finish_save();
    const double now = process_seconds();
    longest_turn_ = std::max(longest_turn_, now - std::exchange(turn_began_, now));
    // Read here, a request that arrived while samples were written still counts.
    const int signal = stop_signal();
    asked |= many_ranks() ? std::exchange(save_asked_, false) : run_.signals.take_save_request();
    asked |= best_loss() && saver_.is_best(state_.step, *best_loss());
    if (!sent_.empty()) continue;  // a save needs the state between two steps
    // Another trainer, or nothing, follows run_.stop. The process itself trains on after other ends of phases.
    const bool ends = state_.step == run_.stop || signal != 0, last = state_.step == run_.phase.last;
    if (ends)
      saver_.finish();
    else if (last)
      finish_save();
    // The last step of a process makes up for a save that failed.
    const bool saves = signal != 0 || asked || save_due() || (ends && saver_.failed());
    if (saves || due(run_.values.parallel.compare_every, state_.step)) compare();
    if (saves) save(!ends && !last);
    asked = false;
    if (!saves) {
      if (state_.step == run_.stop)
        run_.console.text(fmt::format("ended at step {} without a checkpoint of it", state_.step));
      continue;
    }
    if (ends && saver_.failed())
      throw SharedFailure(Exit::checkpoint, fmt::format("step {} could not be saved, so the steps after the previous "
                                                        "checkpoint are lost. Free some space and rerun",
                                                        state_.step));
    if (saver_.failed()) run_.console.warning(kNextSave);
    if (signal != 0 && (state_.step < run_.stop || std::ranges::count(run_.borders, state_.step) > 0)) return signal;
  }
  return 0;
}

}  // namespace llmc
