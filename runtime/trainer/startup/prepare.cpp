#include "trainer/startup/prepare.h"

#include <fmt/format.h>

#include <utility>

#include "comm/together.h"
#include "data/order/forecast.h"
#include "data/vocabulary.h"
#include "device/device.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "program/compiled_spec.h"
#include "run/history.h"
#include "spec/fingerprint.h"
#include "spec/print.h"
#include "spec/training_sources.h"
#include "text/plural.h"
#include "train/guards.h"
#include "train/rollback.h"
#include "trainer/startup/header.h"
#include "trainer/startup/phase.h"
#include "trainer/startup/resume_guard.h"
#include "trainer/startup/resume_point.h"
#include "trainer/startup/saved_model.h"
#include "version.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

/// Values that the command line requested, by override or --follow-spec, and that no step of a finished run used:
/// "optimizer.lr 0.001, not 0.003". The number of steps does not count.
std::string asked_in_vain(const spec::Values& before, const spec::Values& run, const Options& options) {
  std::string text;
  for (const spec::Change& c : spec::changes(before, run)) {
    const bool followed = options.follow_spec && c.key->stage == spec::Stage::run_time && !c.key->aside;
    if ((followed || overrides(options, c.path)) && c.path != "schedule.steps")
      text += fmt::format("{}{} {}, not {}", text.empty() ? "" : ", ", c.path, c.before, c.after);
  }
  return text;
}

/// Whether the checkpoint is one of `run`, whose folder may have been moved since it was saved.
bool is_own(const StartPoint& start, const fs::path& run) {
  return disk::canonical_if_known(start.checkpoint).parent_path() ==
         disk::canonical_if_known(checkpoints_directory(run));
}

/// The checkpoint's state, or, if the run rolled back to it and was stopped before its next save, the state after the
/// samples that the rollback skipped.
TrainState after_rollback(TrainState saved, const StartPoint& start, const fs::path& run) {
  if (!is_own(start, run)) return saved;
  const std::optional<OrderFrom> from = order_after(RunFolder::history(run), saved.step);
  if (!from || from->step != saved.step || from->rollbacks <= saved.guard.rollbacks) return saved;
  return rolled_back(std::move(saved), *from);
}

/// Describes the shards that differ from those the checkpoint was trained on, as far as a history lists them: that of
/// the checkpoint's folder, or of this run.
std::string changed_shards(const TrainState& saved, const Prepared& p, const fs::path& run) {
  if (saved.data_fingerprint == p.state.data_fingerprint) return "";
  for (const fs::path& folder :
       {disk::absolute(p.start->checkpoint, Exit::checkpoint).lexically_normal().parent_path().parent_path(), run})
    if (const auto before = shards_of(RunFolder::history(folder), saved.data_fingerprint))
      return shard_changes(*before, p.shards);
  return "";
}

/// Values that the checkpoint was made with. A run folder whose last start was allowed another model has its values
/// until the first save.
spec::Spec made_with(TrainState& saved, const Prepared& p, const fs::path& run) {
  spec::Spec before = p.values.before->spec;
  if (saved.model_fingerprint == p.model) return before;
  if (is_own(*p.start, run) && p.last && spec::model_fingerprint(before) == p.model)
    saved.model_fingerprint = p.model;
  else
    before.model = read_spec(read_checkpoint_spec(p.start->checkpoint), p.start->checkpoint).spec.model;
  return before;
}

/// Finds which data and tokenizer the run has, and its state before the first step.
void identify_data(Prepared& p) {
  const spec::Spec& run = p.run();
  TokenShards::Identity data = identify(p.inputs.train);
  p.shards = std::move(data.shards);
  const std::string tokenizer = file_checksum(run.data.tokenizer);
  if (tokenizer.empty() && !run.data.tokenizer.empty())
    throw Failure(
        Exit::data,
        fmt::format(
            "data.tokenizer '{}' is not a readable regular file. Name the tokenizer's file, or leave the key out",
            run.data.tokenizer));
  p.state = {0, beginning(p.inputs.train), run.seed, run.data.seed, p.model, data.fingerprint, tokenizer};
  p.state.separator = p.inputs.documents.separator;
}

void check_from_step(const spec::Schedule& schedule, std::int64_t step) {
  if (schedule.from_step <= step) return;
  throw Failure(Exit::usage, fmt::format("schedule.from_step {} is past step {}, at which this run resumes. Set "
                                         "schedule.from_step={} to begin a schedule there",
                                         schedule.from_step, step, step));
}

/// Throws Failure if the values of `p` cannot train the steps after `state`.
void check_steps(const Prepared& p, const ProgramInfo& info, const TrainState& state) {
  check_from_step(p.run().schedule, state.step);
  RunLength length = p.length(info);
  length.done = state.step;
  check_most_epochs(p.inputs.train, state.position, length);
}

/// State with which a run that begins as `ours` continues at `at`. `other_losses`: those from there on must not be
/// compared with those before.
TrainState continued(const TrainState& at, const TrainState& ours, bool other_losses) {
  TrainState state = resumed(at, ours);
  if (other_losses) state.guard = with_other_losses(std::move(state.guard));
  return state;
}

/// Continues at the checkpoint `p.start`, `rolled` if a rollback has just led there. Throws Failure if the run must not
/// resume from it.
void resume(Prepared& p, const Options& options, const std::optional<TrainState>& rolled) {
  TrainState saved = read_train_state(p.start->checkpoint);
  const spec::Spec before = made_with(saved, p, options.run);
  check_resume(saved, before, p.state, p.run(), options.allow, p.start->checkpoint,
               changed_shards(saved, p, options.run));
  p.other_losses = change_losses(options.followed);
  p.state =
      continued(rolled ? *rolled : after_rollback(std::move(saved), *p.start, options.run), p.state, p.other_losses);
}

std::string window_text(const std::optional<StepWindow>& steps) {
  return steps ? fmt::format("{}:{}", steps->first + 1, steps->count) : "not given";
}

}  // namespace

TrainState resume_in_phase(const Prepared& p, const ProgramInfo& info, const TrainState& at) {
  const std::vector<std::string> changed(info.phase.changed.begin(), info.phase.changed.end());
  const bool begins = info.phase.count > 1 && at.step == info.phase.first() && change_losses(changed);
  TrainState state = continued(at, p.state, begins || (at.step == p.state.step && p.other_losses));
  check_steps(p, info, state);
  return state;
}

std::vector<ShardRecord> unlisted_shards(const Prepared& p, const std::string& history) {
  constexpr std::size_t kMost = 4096;  // some 100 bytes each
  const bool listed = p.shards.size() > kMost || shards_of(history, p.state.data_fingerprint);
  return listed ? std::vector<ShardRecord>() : p.shards;
}

Prepared prepare_phase(const Options& options, const ProgramInfo& info, const Prepared& before, const TrainState& state,
                       const BeganWith& began, const std::optional<StartPoint>& back) {
  Prepared p;
  p.spec_file = before.spec_file;
  p.start = back ? back : before.start;
  p.last = before.last;
  p.model = before.model;
  p.stop = before.stop;
  Options resuming = options;
  resuming.followed.clear();
  if (state.step == info.phase.first()) resuming = options_at_border(std::move(resuming), info.phase);
  const auto open = [&] {
    check_paths(options, p.values, false);
    p.inputs = open_inputs(p.run(), info);
    identify_data(p);
  };
  if (back) {
    p.went_back = true;
    p.values = find_values(resuming, info, before.last, back);
    open();
    resume(p, resuming, state);
    p.values.before = before.values.run;
  } else {
    p.values = values_of_phase(options, info, before.values);
    if (info.phase.number == began.phase) p.values.run = began.values;
    open();
    check_resume(state, before.run(), p.state, p.run(), options.allow, p.start ? p.start->checkpoint : options.run,
                 state.data_fingerprint == p.state.data_fingerprint ? "" : shard_changes(before.shards, p.shards));
    p.other_losses = change_losses(resuming.followed);
    p.state = continued(state, p.state, p.other_losses);
  }
  check_steps(p, info, p.state);
  p.state.position = continue_with(std::move(p.state.position), info.sequence_length);
  return p;
}

Prepared prepare(const Options& options, const ProgramInfo& info, const fs::path& spec_file,
                 const std::optional<StartPoint>& start, bool owner, Console& console) {
  Prepared p;
  p.spec_file = spec_file;
  const Log log = [&](const std::string& line) { console.warning(line); };
  p.model = spec::model_fingerprint(built_values(info, options.base).spec);
  check_spec(options, spec_file);
  p.start = start;
  p.last = RunFolder::spec_yaml(options.run);
  p.values = find_values(options, info, p.last, p.start);
  const spec::Spec& run = p.run();
  p.stop = stop_in_phase(info, last_step(options, info, p.values));
  tell_differences(console, options, p.values);
  if (const fs::path other = other_spec(options.run, spec_file); !other.empty())
    console.text(fmt::format("note    the run was last started by a trainer of '{}', and this one is of '{}'",
                             other.string(), spec_file.string()));
  const std::string first = spec::training_sources(run.data).front().source.path;
  if (const std::string note = vocabulary_note(run.model.vocab_size, run.data.tokenizer, first); !note.empty())
    console.text("note    " + note);
  check_paths(options, p.values, p.last && !info.phase.shares_trainer());
  with_origins(options, p.values, [&] { p.inputs = open_inputs(run, info); });
  for (const std::string& warning : p.inputs.warnings) console.warning(warning);
  if (!p.start && !run.init.from.empty()) {
    use_weights(run.init.from, run, log,
                [&](const SavedModel& saved) { p.weights.emplace(saved.folder, info.parameters, saved.form); });
    if (owner && !options.batches) p.weights->check();
  }

  identify_data(p);
  if (p.start) resume(p, options, {});
  with_origins(options, p.values, [&] {
    if (options.batches)
      check_from_step(run.schedule, p.state.step);
    else
      check_steps(p, info, p.state);
  });
  p.state.position = continue_with(p.state.position, info.sequence_length);
  return p;
}

void check_processor(const ProgramInfo& info) {
  if (info.instructions != nullptr) Device::check_instructions(info.arch, *info.instructions);
}

void check_work(const ProgramInfo& info, const spec::Spec& run, int ranks) {
  const std::int64_t sequences = run.batch.tokens / info.sequence_length, passes = sequences / info.micro_batch;
  if (passes >= ranks) return;
  throw Failure(
      Exit::does_not_fit,
      fmt::format(
          "a step of {} tokens is {} micro-batch{} of {} sequence{}, too few for {} ranks. Start at most {}{}, or give "
          "batch.tokens={}",
          run.batch.tokens, passes, passes == 1 ? "" : "es", info.micro_batch, plural(info.micro_batch), ranks, passes,
          sequences >= ranks ? fmt::format(", or compile with parallel.world_size={} and batch.micro_batch=auto", ranks)
                             : "",
          ranks * info.micro_batch * info.sequence_length));
}

Rendezvous::Facts facts_of(const spec::Spec& run, const Inputs& inputs, const std::string& data) {
  Rendezvous::Facts facts = {{"training data", data},
                             {"token that ends documents", std::to_string(inputs.documents.separator)}};
  for (const Evaluation& set : inputs.evaluation)
    facts.emplace_back(set.set().empty() ? "validation data" : "validation data of " + set.set(), set.fingerprint());
  for (const TaskEvaluation& task : inputs.tasks) facts.emplace_back("task " + task.name(), task.fingerprint());
  for (const spec::Key& key : spec::keys()) facts.emplace_back(key.path, spec::value_text(key, key.get(run)));
  return facts;
}

void agree(Rendezvous& ranks, const Options& options, const ProgramInfo& info, const Prepared& p,
           const Rendezvous::Facts& later) try {
  Rendezvous::Facts facts = {{"llmc's version", kVersion},
                             {"instruction set", info.arch},
                             {"first step", std::to_string(p.state.step + 1)},
                             {"last step", std::to_string(p.stop)},
                             {"--trace", options.trace.empty() ? "not given" : "given"},
                             {"--timeline", options.timeline.empty() ? "not given" : "given"},
                             {"--timeline-steps", window_text(options.timeline_steps)},
                             {"--profile", window_text(options.profile)},
                             {"--no-final-checkpoint", options.final_checkpoint ? "not given" : "given"}};
  for (const Rendezvous::Facts& more : {facts_of(p.run(), p.inputs, p.state.data_fingerprint), later})
    facts.insert(facts.end(), more.begin(), more.end());
  ranks.agree(facts);
} catch (const Failure& failure) {
  throw SharedFailure(failure.code(), failure.what());
}

std::string nothing_to_do(const Prepared& p, const Options& options) {
  const std::int64_t step = p.state.step;
  if (step < p.stop) return {};
  const std::string where = (p.start ? p.start->checkpoint : options.run).string();
  const char* limit = options.steps ? "--steps" : "schedule.steps";
  const std::string why = step > p.stop
                              ? fmt::format("nothing to do: '{}' is at step {}, past {} {}", where, step, limit, p.stop)
                              : fmt::format("nothing to do: '{}' is at step {} of {}. Give a larger {} to continue",
                                            where, step, p.stop, limit);
  const std::string vain = p.values.before ? asked_in_vain(*p.values.before, p.values.run, options) : "";
  if (!vain.empty())
    throw SharedFailure(Exit::usage, fmt::format("{}. It was trained with {}. To train with other values, start a new "
                                                 "run with another --run, such as --run runs/NAME",
                                                 why, vain));
  return why;
}

}  // namespace llmc
