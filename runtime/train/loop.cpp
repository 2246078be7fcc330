#include "train/loop.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "comm/collectives.h"
#include "comm/together.h"
#include "error.h"
#include "host/clock.h"
#include "spec/validation_sets.h"
#include "step/replicas.h"
#include "text/plural.h"
#include "train/metrics.h"
#include "train/rollback.h"
#include "train/usage.h"

namespace llmc {

namespace {

constexpr double kRefreshSeconds = 0.1;  // of the line on a terminal

// Ranks add up their requests: how many ask to stop, times kSaveRequest how many ask to save, and kFinishRequest where
// rank 0 has written its part of a checkpoint. A float counts up to 2^24.
constexpr float kStopRequest = 1, kSaveRequest = 1024, kFinishRequest = 1024 * 1024;
static_assert(kSaveRequest > kMostRanks);

// A deadline leaves so many seconds, and so many times the longest turn and the longest save.
constexpr double kSpareSeconds = 5, kSpareFactor = 2;

constexpr char kNextSave[] = "training goes on; the next save is tried at the next interval";

}  // namespace

bool TrainLoop::many_ranks() const { return run_.session.ranks().world_size() > 1; }

float TrainLoop::requests() {
  if (!many_ranks()) return 0;
  return (own_reason() != 0 ? kStopRequest : 0) + (run_.signals.take_save_request() ? kSaveRequest : 0) +
         (run_.folder && saver_.in_flight() && saver_.written() ? kFinishRequest : 0);
}

int TrainLoop::own_reason() const {
  if (const int signal = run_.signals.stop_signal(); signal != 0) return signal;
  const double needed = kSpareSeconds + kSpareFactor * (longest_turn_ + saver_.longest_seconds());
  return run_.deadline > 0 && process_seconds() + needed >= run_.deadline ? kDeadline : 0;
}

/// Many ranks go by what came back with a step, which is the same on all of them.
int TrainLoop::stop_signal() const {
  const int own = own_reason();
  if (!many_ranks()) return own;
  return !stop_asked_ ? 0 : own != 0 ? own : kOtherRank;
}

/// Whether something is due after a step that needs the device as that step leaves it, or that begins and ends there.
bool TrainLoop::stays_alone(std::int64_t step) const {
  const bool profiler =
      run_.profile && (step == run_.profile->first || step == run_.profile->first + run_.profile->count);
  return step == run_.stop || run_.trace || profiler || stop_signal() != 0 ||
         (!run_.evaluation.empty() && due(run_.values.evaluation.every, step)) ||
         (run_.sampling && due(run_.values.sampling.every, step)) || due(run_.values.checkpoint.every, step) ||
         (run_.audit && run_.audit->due(step + 1)) || (many_ranks() && due(run_.values.parallel.compare_every, step));
}

void TrainLoop::send() {
  const std::int64_t step = state_.step + static_cast<std::int64_t>(sent_.size());
  if (run_.profile && step == run_.profile->first) run_.session.profile(true);
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
  const bool timed = run_.timeline && run_.timeline->covers(step);
  if (timed) run_.timeline->begin_step(step);
  if (timed) run_.session.listen(run_.timeline);
  run_.session.send(batch_, optimizer_scalars(optimizer, run_.session.info().groups, lr, step),
                    {.clip_norm = static_cast<float>(optimizer.clip_norm),
                     .loss_scale = 0,
                     .requests = requests(),
                     .loss_limit = limits.loss,
                     .grad_norm_limit = limits.grad_norm},
                    step, run_.trace);
  if (timed) run_.session.listen(nullptr);
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
    save_asked_ |= std::fmod(finished_.results.requests, kFinishRequest) >= kSaveRequest;
    finish_asked_ |= finished_.results.requests >= kFinishRequest;
  }
  const double loss = finished_.results.loss;
  recent_.seconds += seconds;
  recent_.tokens += done_.targets;
  recent_.all_tokens += run_.values.batch.tokens;
  if (std::isfinite(loss)) {
    recent_.largest = recent_.steps++ ? std::max(recent_.largest, loss) : loss;
    recent_.sum += loss;
  }
  if (run_.profile && state_.step == run_.profile->first + run_.profile->count) run_.session.profile(false);
  if (run_.timeline && run_.timeline->ends_with(state_.step)) write_timeline();
}

void TrainLoop::write_timeline() try {
  run_.timeline->write(run_.session.allocated_bytes());
} catch (const Failure& failure) {
  run_.console.warning(fmt::format("{}; training goes on without a timeline", failure.what()));
}

double TrainLoop::epochs() const {
  return epochs_of(state_.position, static_cast<double>(run_.loader->samples_per_epoch()) *
                                        static_cast<double>(run_.session.info().sequence_length));
}

std::optional<double> TrainLoop::mfu(double tokens_per_second) const {
  if (!run_.peak) return std::nullopt;
  return utilisation(run_.session.info().flops_per_token, tokens_per_second, run_.session.ranks().world_size(),
                     *run_.peak);
}

std::optional<double> TrainLoop::product_share(double tokens_per_second) const {
  if (!run_.product_flops) return std::nullopt;
  return utilisation(run_.session.info().flops_per_token, tokens_per_second, 1, *run_.product_flops);
}

double TrainLoop::left_seconds() const {
  const auto done = static_cast<double>(step_seconds_.size());
  return (process_seconds() - began_) / done * static_cast<double>(run_.stop - state_.step);
}

void TrainLoop::log_step(bool line, bool norms) {
  StepMetrics metrics;
  metrics.step = state_.step;
  metrics.loss = finished_.results.loss;
  metrics.lr = done_.lr;
  metrics.grad_norm = finished_.results.grad_norm;
  metrics.tokens = static_cast<std::int64_t>(tokens_of(state_.position));
  metrics.tokens_per_second = static_cast<double>(done_.targets) / step_seconds_.back();
  metrics.seconds = process_seconds();
  metrics.total_seconds = run_.seconds_before + metrics.seconds;
  metrics.top1 = static_cast<float>(finished_.results.top1);
  metrics.lse_mean = static_cast<float>(finished_.results.lse);
  metrics.lse_max = static_cast<float>(finished_.results.lse_max);
  metrics.entropy = static_cast<float>(finished_.results.entropy);
  metrics.ignored = 1 - static_cast<double>(done_.targets) / static_cast<double>(run_.values.batch.tokens);
  metrics.epochs = epochs();
  metrics.data_wait = done_.data_wait;
  const double all_tokens_per_second = static_cast<double>(run_.values.batch.tokens) / step_seconds_.back();
  metrics.mfu = mfu(all_tokens_per_second);
  metrics.product_share = product_share(all_tokens_per_second);
  metrics.validation = validation_;
  metrics.evaluation_seconds = evaluation_seconds_;
  metrics.audited = done_.audited;
  metrics.saving_seconds = std::exchange(saving_seconds_, {});
  if (line) metrics.memory = {static_cast<std::int64_t>(run_.session.allocated_bytes()), resident_bytes()};
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
  progress.val_loss = loss_of(spec::leading_set(run_.values));
  progress.tokens_per_second = static_cast<double>(recent_.tokens) / recent_.seconds;
  progress.mfu = mfu(static_cast<double>(recent_.all_tokens) / recent_.seconds);
  progress.seconds_left = left_seconds();
  run_.console.progress(progress, keep);
}

/// Many ranks add up their parts, so that none may leave its out.
void TrainLoop::evaluate() {
  run_.ranks.at(state_.step, "evaluating");
  validation_ =
      evaluate_all(run_.evaluation, run_.session, [&] { return !many_ranks() && run_.signals.stop_signal() != 0; });
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

void TrainLoop::save(bool beside) {
  run_.ranks.at(state_.step, "saving");
  const double begin = process_seconds();
  state_.guard = guard_.state();
  saver_.begin(state_, beside, best_loss(), guard_.may_go_back_before());
  saving_seconds_ = process_seconds() - begin;
}

void TrainLoop::finish_save() {
  if (!saver_.in_flight()) return;
  saver_.finish();
  if (saver_.failed()) run_.console.warning(kNextSave);
}

std::optional<double> TrainLoop::loss_of(const std::string& set) const {
  const auto found = std::ranges::find(validation_, set, &Validation::set);
  return found == validation_.end() ? std::nullopt : std::optional(found->loss);
}

std::optional<double> TrainLoop::best_loss() const {
  if (run_.values.checkpoint.best == "none") return std::nullopt;
  return loss_of(spec::leading_set(run_.values));
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
  if (done_.audited)
    if (const std::string apart = run_.audit->judge(state_.step, results.loss, done_.audited->loss, results.lse_max);
        !apart.empty())
      run_.console.warning(apart);
  if (const std::string still = frozen_.observe(state_.step, results.loss); !still.empty()) run_.console.warning(still);
}

void TrainLoop::report(bool last) {
  validation_.clear();
  observe();
  if (const auto expected = std::exchange(run_.first_loss, {}))
    if (const std::string unexpected = first_loss_warning(*expected, finished_.results.loss); !unexpected.empty())
      run_.console.warning(unexpected);
  const bool evaluating = !run_.evaluation.empty() && due(run_.values.evaluation.every, state_.step);
  const bool line = due(run_.values.metrics.every, state_.step) || step_seconds_.size() == 1;
  evaluation_seconds_.reset();
  if (evaluating) {
    const double begin = process_seconds();
    evaluate();
    if (!validation_.empty()) evaluation_seconds_ = process_seconds() - begin;
  }
  log_step(line, line || evaluating || finished_.results.skipped);
  show_progress(last || !validation_.empty() || (line && !run_.console.terminal()));
  if (line || !validation_.empty()) recent_ = {};
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
  saver_.rest();
  while (!sent_.empty()) finish();  // a step that was sent ahead: its update goes with the rest
  run_.ranks.at(left, "going back to a checkpoint");
  const auto state = roll_back(run_.path, run_.mirror, run_.folder, now, guard_.first_skipped(), why, run_.start,
                               run_.session, run_.ranks, [&](const std::string& line) { run_.console.warning(line); });
  if (!state)
    throw SharedFailure(Exit::numerics, fmt::format("{}, and there is no whole checkpoint from before step {} to go "
                                                    "back to; {}",
                                                    why, guard_.first_skipped(), guard_.advice()));
  run_.console.warning(fmt::format(
      "{}: the run goes back to step {}, and on with the samples after those of step {} (rollback {} of {})", why,
      state->step, left, state->guard.rollbacks, guards.rollbacks));
  state_ = *state;
  saver_.go_back(state_);
  guard_ = Guard(guards, run_.values.optimizer.clip_norm, state_.guard);
  run_.loader = run_.open_loader(state_.position);
  recent_ = {};
}

int TrainLoop::run() try {
  const int signal = train();
  if (run_.timeline) write_timeline();  // of a run that was stopped before its last step of these
  return signal;
} catch (const SharedFailure&) {  // what ends all of them leaves what was begun to be saved
  saver_.finish();
  throw;
}

int TrainLoop::train() {
  began_ = turn_began_ = process_seconds();
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
    if (many_ranks() ? std::exchange(finish_asked_, false) : saver_.written()) finish_save();
    const double now = process_seconds();
    longest_turn_ = std::max(longest_turn_, now - std::exchange(turn_began_, now));
    // Asked for while the samples were written is early enough.
    const int signal = stop_signal();
    asked |= many_ranks() ? std::exchange(save_asked_, false) : run_.signals.take_save_request();
    asked |= best_loss() && saver_.is_best(state_.step, *best_loss());
    if (!sent_.empty()) continue;  // what is saved is the state between two steps
    const bool ends = last || signal != 0, saves = signal != 0 || asked || save_due();
    if (saves || due(run_.values.parallel.compare_every, state_.step)) compare();
    if (saves) save(!ends);
    if (ends) saver_.finish();
    asked = false;
    if (!saves) {
      if (last) run_.console.text(fmt::format("ended at step {} without a checkpoint of it", state_.step));
      continue;
    }
    if (ends && saver_.failed())
      throw SharedFailure(
          Exit::checkpoint,
          fmt::format("step {} could not be saved, so what came after the checkpoint before it is lost; "
                      "make room and run again",
                      state_.step));
    if (saver_.failed()) run_.console.warning(kNextSave);
    if (signal != 0 && !last) return signal;
  }
  return 0;
}

}  // namespace llmc
