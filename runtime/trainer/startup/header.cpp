#include "trainer/startup/header.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "files/disk.h"
#include "files/durable_file.h"
#include "host/executable.h"
#include "math/libraries.h"
#include "math/tuning.h"
#include "program/compiled_spec.h"
#include "spec/fingerprint.h"
#include "spec/length/schedule.h"
#include "spec/length/schedule_line.h"
#include "spec/schema/schema.h"
#include "text/plural.h"
#include "text/shell.h"
#include "version.h"

namespace llmc {

namespace fs = std::filesystem;

namespace {

constexpr int kScheduleColumns = 32;

/// Sums over all sources.
struct Extent {
  std::int64_t tokens = 0, shards = 0, samples = 0;
};

Extent extent_of(const Sources& sources, std::int64_t sequence_length) {
  Extent all;
  for (const Source& source : sources) {
    all.tokens += source.shards->tokens();
    all.shards += static_cast<std::int64_t>(source.shards->shards().size());
    all.samples += source.shards->samples(sequence_length);
  }
  return all;
}

std::string shown(const char* path, const spec::Spec& values) {
  const spec::Key& key = *spec::find_key(path);
  return spec::value_text(key, key.get(values));
}

}  // namespace

void print_header(Console& console, const Session& session, const Device& device, const spec::Spec& values,
                  const Sources& train, const fs::path& run, const TrainState& state,
                  const std::optional<StartPoint>& start, const Ahead& ahead) {
  const std::int64_t stop = ahead.stop;
  const ProgramInfo& info = session.info();
  const std::int64_t sequences = values.batch.tokens / info.sequence_length;
  const std::size_t bytes = session.allocated_bytes();
  console.text(fmt::format("{}: {} parameters, fingerprint {}", info.name, format_count(info.parameter_count),
                           info.fingerprint));
  const spec::Model& m = values.model;
  console.text(
      fmt::format("model   {} layer{}, hidden {}, {}/{} heads of {}, ffn {}, vocabulary {}{}, {}{}", info.layers,
                  plural(info.layers), info.hidden_size, m.num_attention_heads, m.num_key_value_heads, info.head_dim,
                  m.intermediate_size, info.vocab_size, m.tie_word_embeddings ? ", tied" : "", name_of(values.compute),
                  values.matmul == spec::Matmul::automatic ? "" : ", products " + shown("precision.matmul", values)));
  const std::int64_t passes = sequences / info.micro_batch, ranks = session.mesh().data.size;
  console.text(fmt::format("step    {} micro-batch{} of {} x {} tokens{}, recompute {}", passes,
                           passes == 1 ? "" : "es", info.micro_batch, info.sequence_length,
                           ranks > 1 ? fmt::format(" on {} ranks", ranks) : "", shown("memory.recompute", values)));
  console.text(fmt::format("device  {}, compiled for {}", device.description(), info.arch));
  console.text(fmt::format("memory  {} bytes allocated ({:.1f} MiB)", format_count(static_cast<std::int64_t>(bytes)),
                           static_cast<double>(bytes) / (1 << 20)));
  const std::string algorithms = describe_tuning(info.products, info.math_workspace_bytes(),
                                                 ranks > 1 ? static_cast<int>(values.parallel.reserved_sms) : 0);
  if (!algorithms.empty()) console.text("gemm    " + algorithms);
  for (const AttentionPlan* plan = info.attention; plan; plan = plan->next)
    console.text("attn    " + (plan->shape.window ? fmt::format("window {}: ", plan->shape.window) : "") +
                 describe_attention(*plan));
  const Extent extent = extent_of(train, info.sequence_length);
  const double epoch = static_cast<double>(extent.samples) * static_cast<double>(info.sequence_length);
  const std::int64_t steps = stop - state.step;
  const std::string use =
      info.phase.count > 1
          ? fmt::format("{} step{} up to step {} are {} tokens, {:.2f} epochs", format_count(steps), plural(steps),
                        format_count(stop), format_count(ahead.tokens), static_cast<double>(ahead.tokens) / epoch)
          : fmt::format("{} step{} of {} tokens are {:.2f} epochs", format_count(stop), plural(stop),
                        format_count(values.batch.tokens),
                        static_cast<double>(stop) * static_cast<double>(values.batch.tokens) / epoch);
  console.text(fmt::format("data    {}{} tokens in {} shard{}, {} sample{} of {}; {}",
                           train.front().name.empty() ? ""
                                                      : fmt::format("{} source{}, ", train.size(),
                                                                    plural(static_cast<std::int64_t>(train.size()))),
                           format_count(extent.tokens), extent.shards, plural(extent.shards),
                           format_count(extent.samples), plural(extent.samples), info.sequence_length, use));
  print_sources(console, train, state.position, ahead.phase);
  const spec::Schedule& schedule = values.schedule;
  const double peak = values.optimizer.lr;
  console.text(fmt::format("lr      {}  {}: {:.2e} at step {}, at most {:.2e}, {:.2e} at step {}",
                           schedule_line(schedule, peak, kScheduleColumns, prints_utf8()),
                           shown("schedule.kind", values), learning_rate(schedule, peak, schedule.from_step),
                           format_count(schedule.from_step + 1), peak,
                           learning_rate(schedule, peak, schedule.steps - 1), format_count(schedule.steps)));
  if (schedule.weight_decay != spec::DecaySchedule::constant)
    console.text(fmt::format("decay   {}: weight decay falls to 0 after step {}",
                             shown("schedule.weight_decay", values), format_count(schedule.steps)));
  if (!start && values.init.from.empty())
    console.text(fmt::format("loss    begins near ln {} = {:.2f}", info.vocab_size,
                             std::log(static_cast<double>(info.vocab_size))));
  // --resume may name a checkpoint of another folder; the run continues in this one.
  const bool foreign = start && disk::canonical_if_known(start->checkpoint).parent_path() !=
                                    disk::canonical_if_known(checkpoints_directory(run));
  console.text(fmt::format("run     {}, {}{}", run.string(),
                           state.step ? fmt::format("resumed at step {}", state.step) : "from step 0",
                           foreign ? fmt::format(" of '{}'", start->checkpoint.string()) : ""));
}

void print_sources(Console& console, const Sources& train, const DataPosition& position, const RunLength& length) {
  for (const SourceForecast& source : forecast(train, position, length))
    if (!source.name.empty())
      console.text("source  " + forecast_text(source) +
                   (length.fixed ? fmt::format(", up to step {}", format_count(length.stop)) : ""));
}

Environment environment(const ProgramInfo& info, const Device& device, WorldRank self) {
  return {kVersion,           info.fingerprint, info.arch, device.description(),
          library_versions(), device.threads(), self.size, file_checksum(tuned_file())};
}

void tell_changes(Console& console, const std::vector<spec::Change>& changed,
                  const std::vector<std::string>& surroundings, bool resumed) {
  std::string build;
  const auto add = [&](const std::string& text) { build += (build.empty() ? "" : ", ") + text; };
  for (const spec::Change& c : changed) {
    if (c.path == "target.arch") continue;  // its resolved value is part of the environment
    const std::string text = fmt::format("{} {} -> {}", c.path, c.before, c.after);
    if (c.key->stage == spec::Stage::compiled && !c.key->aside)
      add(text);
    else
      console.text("change  " + text);
  }
  for (const std::string& text : surroundings) add(text);
  if (!build.empty() && resumed)
    console.warning(build + ": the run resumes, but its results are not bit-equal to those without the change");
}

void tell_rate(Console& console, const spec::Spec& before, const spec::Spec& run, std::int64_t step) {
  constexpr double kJump = 0.01;  // relative: smaller jumps vanish in the noise of steps
  std::string changed;
  for (const spec::Change& c : spec::changes(before, run))
    if (c.path.starts_with("schedule.") || c.path == "optimizer.lr")
      changed += fmt::format("{}{} {} -> {}", changed.empty() ? "" : ", ", c.path, c.before, c.after);
  // A schedule that begins at this step is meant to jump, and rates of 0 have no jump.
  if (changed.empty() || run.schedule.from_step == step) return;
  if (before.optimizer.lr == 0 && run.optimizer.lr == 0) return;
  const std::int64_t step_before = std::min(step, before.schedule.steps - 1);
  // `was` and `now`: parts of their peaks, because another peak is no jump of the schedule.
  const auto tell = [&](const char* what, double was, double now, double peak_before, double peak) {
    if (std::abs(now - was) <= kJump * std::max(now, was)) return false;
    console.warning(
        fmt::format("{}: the {} of step {} is {:.2e}, but was {:.2e} in the previous schedule. A schedule spans all of "
                    "schedule.steps. Set schedule.from_step={} to begin a new one here",
                    changed, what, step + 1, now * peak, was * peak_before, step));
    return true;
  };
  if (tell("learning rate", learning_rate(before.schedule, 1, step_before), learning_rate(run.schedule, 1, step),
           before.optimizer.lr, run.optimizer.lr))
    return;
  tell("factor on the weight decay", weight_decay_left(before.schedule, step_before),
       weight_decay_left(run.schedule, step), 1, 1);
}

void tell_differences(Console& console, const Options& options, const StartValues& values) {
  spec::Spec taken = values.built.spec;  // if the run kept nothing
  for (const spec::Key& key : spec::keys())
    if (overrides(options, key.path)) key.set(taken, key.get(values.run.spec));
  std::vector<std::string> kept, words;
  for (const spec::Change& c : spec::changes(values.built, values.run)) {
    console.text(fmt::format("value   {}={} (the trainer was built with {})", c.path, c.after, c.before));
    if (!values.before || options.follow_spec || overrides(options, c.path)) continue;
    const bool there = spec::present(spec::spec_schema().value_at(c.path, values.built.spec)) &&
                       spec::applies(*c.key, values.built.spec);
    if (there && !spec::applies(*c.key, taken)) continue;  // an override has left it without effect
    kept.push_back(c.path);
    if (there || c.key->is_path) words.push_back(c.path + "=" + (there ? c.before : ""));
  }
  if (!kept.empty())
    console.text(
        fmt::format("value   the run keeps its own {}. To take the trainer's, add {}, or --follow-spec for all",
                    spec::either(kept, " and "), shell_line(words)));
  for (const std::string& path : edited_spec_files(executable_folder()))
    console.warning(fmt::format(
        "'{}' was edited after this trainer was compiled, so the edit has no effect. Run `llmc compile` to apply it{}",
        path, values.before ? "; with --follow-spec this run then takes its run-time values" : ""));
}

}  // namespace llmc
