#include "train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/collectives.h"
#include "error.h"
#include "plural.h"
#include "train/clock.h"
#include "train/metrics.h"
#include "train/replicas.h"
#include "train/rollback.h"
#include "train/together.h"

namespace llmc {

namespace {

constexpr double kRefreshSeconds = 0.1;  // of the line on a terminal

// Ranks add up their requests: how many ask to stop, and times kSaveRequest, how many ask to save.
constexpr float kStopRequest = 1, kSaveRequest = 1024;
static_assert(kSaveRequest > kMostRanks);

}  // namespace

bool TrainLoop::many_ranks() const { return run_.session.ranks().world_size() > 1; }

float TrainLoop::requests() {
  if (!many_ranks()) return 0;
  return (run_.signals.stop_signal() != 0 ? kStopRequest : 0) + (run_.signals.take_save_request() ? kSaveRequest : 0);
}

/// Many ranks go by what came back with a step, which is the same on all of them.
int TrainLoop::stop_signal() const {
  const int own = run_.signals.stop_signal();
  if (!many_ranks()) return own;
  return !stop_asked_ ? 0 : own != 0 ? own : kOtherRank;
}

/// Whether something is due after a step that needs the device as that step leaves it, or that begins and ends there.
bool TrainLoop::stays_alone(std::int64_t step) const {
  const bool profiler =
      run_.profile && (step == run_.profile->first || step == run_.profile->first + run_.profile->count);
  return step == run_.stop || run_.trace || profiler || stop_signal() != 0 ||
         (run_.evaluation && due(run_.values.evaluation.every, step)) ||
         (run_.sampling && due(run_.values.sampling.every, step)) || due(run_.values.checkpoint.every, step) ||
         (many_ranks() && due(run_.values.parallel.compare_every, step));
}

void TrainLoop::send() {
  const std::int64_t step = state_.step + static_cast<std::int64_t>(sent_.size());
  if (run_.profile && step == run_.profile->first) run_.session.profile(true);
  const double begin = process_seconds();
  batch_ = run_.loader->next(std::move(batch_));
  const spec::Optimizer& optimizer = run_.values.optimizer;
  const double lr = learning_rate(run_.values.schedule, optimizer.lr, step);
  const StepLimits limits = guard_.limits(step + 1);
  sent_.push_back({lr, batch_.sample_ids, batch_.target_count, batch_.end, limits, begin});
  run_.ranks.at(step + 1, "training");
  run_.session.send(batch_, optimizer_scalars(optimizer, run_.session.info().groups, lr, step),
                    {.clip_norm = static_cast<float>(optimizer.clip_norm),
                     .loss_scale = 0,
                     .requests = requests(),
                     .loss_limit = limits.loss,
                     .grad_norm_limit = limits.grad_norm},
                    step, run_.trace);
}

/// The time of a step that was sent ahead begins where the one before it ended.
void TrainLoop::finish() {
  done_ = std::move(sent_.front());
  sent_.pop_front();
  finished_ = run_.session.finish(run_.trace, static_cast<float>(done_.lr));
  const double end = process_seconds(), seconds = end - std::max(done_.begin, done_at_);
  done_at_ = end;
  if (step_seconds_.empty()) first_step_end_ = end;
  step_seconds_.push_back(seconds);
  ++state_.step;
  state_.position = done_.position;
  if (many_ranks()) {
    stop_asked_ |= std::fmod(finished_.results.requests, kSaveRequest) >= kStopRequest;
    save_asked_ |= finished_.results.requests >= kSaveRequest;
  }
  const double loss = finished_.results.loss;
  recent_.seconds += seconds;
  recent_.tokens += done_.targets;
  if (std::isfinite(loss)) {
    recent_.largest = recent_.steps++ ? std::max(recent_.largest, loss) : loss;
    recent_.sum += loss;
  }
  if (run_.profile && state_.step == run_.profile->first + run_.profile->count) run_.session.profile(false);
}

double TrainLoop::left_seconds() const {
  const auto done = static_cast<double>(step_seconds_.size());
  return (process_seconds() - began_) / done * static_cast<double>(run_.stop - state_.step);
}

void TrainLoop::log_step(bool norms) {
  StepMetrics metrics;
  metrics.step = state_.step;
  metrics.loss = finished_.results.loss;
  metrics.lr = done_.lr;
  metrics.grad_norm = finished_.results.grad_norm;
  metrics.tokens = static_cast<std::int64_t>(state_.position.tokens);
  metrics.tokens_per_second = static_cast<double>(done_.targets) / step_seconds_.back();
  metrics.seconds = process_seconds();
  metrics.val_loss = val_loss_;
  if (finished_.results.skipped) metrics.skipped_samples = done_.sample_ids;
  metrics.skip_reason = skip_reason(finished_.results.skipped);
  if (norms && run_.values.metrics.per_parameter) metrics.parameter_norms = finished_.norms;
  if (!run_.folder) return;
  try {
    run_.folder->append_metrics(format_metrics(metrics, run_.session.info().parameters));
    run_.folder->events().add_scalars(state_.step, metrics_scalars(metrics, run_.session.info().parameters));
    log_broken_ = false;
  } catch (const Failure& failure) {  // a full disk must not end a run
    if (!log_broken_)
      run_.console.warning(fmt::format("{}; training goes on without metrics until it works again", failure.what()));
    log_broken_ = true;
  }
}

void TrainLoop::show_progress(bool keep) {
  const double now = process_seconds();
  if (!keep && (!run_.console.terminal() || now - shown_ < kRefreshSeconds)) return;
  shown_ = now;
  Progress progress;
  progress.step = state_.step;
  progress.steps = run_.stop;
  progress.loss = recent_.steps ? recent_.sum / static_cast<double>(recent_.steps) : finished_.results.loss;
  if (recent_.steps > 1) progress.largest = recent_.largest;
  progress.lr = done_.lr;
  progress.grad_norm = finished_.results.grad_norm;
  progress.val_loss = val_loss_;
  progress.tokens_per_second = static_cast<double>(recent_.tokens) / recent_.seconds;
  progress.seconds_left = left_seconds();
  run_.console.progress(progress, keep);
}

/// Many ranks add up their parts, so that none may leave its out.
void TrainLoop::evaluate() {
  run_.ranks.at(state_.step, "evaluating");
  val_loss_ = run_.evaluation->run(run_.session, [&] { return !many_ranks() && run_.signals.stop_signal() != 0; });
}

/// Rank 0 samples. Where a pass gathers weights all ranks run it, as often as rank 0 says.
void TrainLoop::sample() {
  run_.ranks.at(state_.step, "sampling");
  run_.session.gather_weights();
  const bool together = run_.session.passes_together();
  const auto another_pass = [&](bool mine) {
    return !together ? mine : !run_.ranks.broadcast(mine ? "+" : "", 0).empty();
  };
  if (!run_.folder) {
    while (another_pass(false)) run_.session.follow_logits();
    return;
  }
  const auto samples =
      run_.sampling->run(run_.session, state_.step, [&] { return !another_pass(run_.signals.stop_signal() == 0); });
  if (!samples) return;
  another_pass(false);
  for (std::size_t i = 0; i < samples->size(); ++i) {
    const Sample& sample = (*samples)[i];
    const std::string shown = run_.sampling->shown(sample);
    run_.console.text(fmt::format("--- sample at step {}: {}", state_.step, shown));
    try {
      run_.folder->append_sample(format_sample(state_.step, sample));
      run_.folder->events().add_text(state_.step, fmt::format("samples/{}", i + 1), shown);
    } catch (const Failure& failure) {
      run_.console.warning(fmt::format("{}; training goes on", failure.what()));
    }
  }
}

void TrainLoop::compare() {
  if (!many_ranks() || run_.values.parallel.compare_every == 0) return;
  run_.ranks.at(state_.step, "comparing weights");
  compare_replicas(run_.session, run_.ranks, state_.step);
}

bool TrainLoop::save() try {
  run_.ranks.at(state_.step, "saving");
  state_.guard = guard_.state();
  SaveOptions options;
  options.savers = {run_.session.ranks().rank(), run_.session.ranks().world_size(),
                    [&](const std::string& mine) { return run_.ranks.all_gather(mine); }};
  options.prepare = [&] {
    if (run_.folder->renew())
      run_.console.warning(fmt::format(
          "'{}' was removed while the run was training; it is made again, with a checkpoint of step {} to go on "
          "from, but the metrics and samples until here and the checkpoints before are lost",
          run_.path.string(), state_.step));
  };
  options.retention = {run_.values.checkpoint.keep_last, run_.values.checkpoint.keep_every,
                       guard_.may_go_back_before()};
  options.log = [&](const std::string& line) { run_.console.warning(line); };
  const auto path =
      save_checkpoint(run_.path, state_, run_.texts, run_.session.info().parameters, run_.session.state(), options);
  run_.console.text(fmt::format("saved {}", path.string()));
  return true;
} catch (const std::exception& failure) {  // the file system library throws its own
  // What one rank fails by alone leaves the others waiting: it ends.
  const auto* known = dynamic_cast<const Failure*>(&failure);
  if (many_ranks() && !(known && known->code() == Exit::checkpoint)) throw;
  run_.console.warning(fmt::format("CHECKPOINT FAILED at step {}: {}", state_.step, failure.what()));
  return false;
}

/// Of several ranks whose update was skipped because something is not finite, those where that began; else empty.
std::string TrainLoop::where_not_finite() {
  if (!many_ranks() || finished_.results.skipped != kNotFinite) return {};
  // A letter for a loss, one for weights that are not finite: the others have them after the gather, so that the loss
  // may be that of all ranks.
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
  return text.empty() ? "gradients alone" : text;
}

void TrainLoop::observe() {
  const StepResults& results = finished_.results;
  const std::string warning = guard_.observe(state_.step, results, done_.limits, done_.sample_ids, where_not_finite());
  if (!warning.empty()) run_.console.warning(warning);
  if (results.skipped && run_.sample_text)
    for (const std::uint64_t sample :
         std::span(done_.sample_ids).first(std::min(done_.sample_ids.size(), kNamedSamples)))
      run_.console.warning(fmt::format("step {}, sample {}: {}", state_.step, sample, run_.sample_text(sample)));
  if (const std::string still = frozen_.observe(state_.step, results.loss); !still.empty()) run_.console.warning(still);
}

void TrainLoop::report(bool last) {
  val_loss_.reset();
  observe();
  const bool evaluating = run_.evaluation && due(run_.values.evaluation.every, state_.step);
  const bool line = due(run_.values.metrics.every, state_.step) || step_seconds_.size() == 1;
  if (evaluating) evaluate();
  log_step(line || evaluating || finished_.results.skipped);
  show_progress(last || val_loss_ || (line && !run_.console.terminal()));
  if (line || val_loss_) recent_ = {};
  if (!guard_.exhausted().empty()) return;
  if (run_.sampling && due(run_.values.sampling.every, state_.step)) sample();
}

void TrainLoop::go_back(const std::string& why) {
  const spec::Guards& guards = run_.values.guards;
  if (!guards.rollback)
    throw SharedFailure(Exit::numerics, fmt::format("{}; {}; guards.rollback=true goes back to a checkpoint by itself",
                                                    why, guard_.advice()));
  if (guard_.state().rollbacks >= guards.rollbacks)
    throw SharedFailure(Exit::numerics, fmt::format("{}, after {} rollback{} (guards.rollbacks); {}", why,
                                                    guards.rollbacks, plural(guards.rollbacks), guard_.advice()));
  const std::int64_t left = state_.step;
  TrainState now = state_;
  now.guard = guard_.state();
  while (!sent_.empty()) finish();  // a step that was sent ahead: its update goes with the rest
  run_.ranks.at(left, "going back to a checkpoint");
  const auto state = roll_back(run_.path, run_.folder, now, guard_.first_skipped(), why, run_.start, run_.session,
                               run_.ranks, [&](const std::string& line) { run_.console.warning(line); });
  if (!state)
    throw SharedFailure(Exit::numerics, fmt::format("{}, and there is no whole checkpoint from before step {} to go "
                                                    "back to; {}",
                                                    why, guard_.first_skipped(), guard_.advice()));
  run_.console.warning(fmt::format(
      "{}: the run goes back to step {}, and on with the samples after those of step {} (rollback {} of {})", why,
      state->step, left, state->guard.rollbacks, guards.rollbacks));
  state_ = *state;
  guard_ = Guard(guards, run_.values.optimizer.clip_norm, state_.guard);
  run_.loader = run_.open_loader(state_.position);
  recent_ = {};
}

int TrainLoop::run() {
  began_ = process_seconds();
  bool asked = false;  // to save
  while (state_.step < run_.stop) {
    if (sent_.empty()) send();
    // The device always has the next step before the host looks at the results of this one.
    if (run_.session.runs_ahead() && sent_.size() == 1 && !asked && !stays_alone(state_.step + 1)) send();
    finish();
    const bool last = state_.step == run_.stop;
    report(last);
    if (const std::string why = guard_.exhausted(); !why.empty()) {
      go_back(why);
      continue;
    }
    // Asked for while the samples were written is early enough.
    const int signal = stop_signal();
    asked |= many_ranks() ? std::exchange(save_asked_, false) : run_.signals.take_save_request();
    if (!sent_.empty()) continue;  // what is saved is the state between two steps
    const bool saves = signal != 0 || asked || save_due();
    if (saves || due(run_.values.parallel.compare_every, state_.step)) compare();
    if (!saves) {
      if (last) run_.console.text(fmt::format("ended at step {} without a checkpoint of it", state_.step));
      continue;
    }
    asked = false;
    const bool saved = save();
    if (!saved && (last || signal != 0))
      throw SharedFailure(
          Exit::checkpoint,
          fmt::format("step {} could not be saved, so what came after the checkpoint before it is lost; "
                      "make room and run again",
                      state_.step));
    if (!saved) run_.console.warning("training goes on; the next save is tried at the next interval");
    if (signal != 0 && !last) return signal;
  }
  return 0;
}

}  // namespace llmc
