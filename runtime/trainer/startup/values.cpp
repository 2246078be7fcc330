#include "trainer/startup/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <stdexcept>

#include "error.h"
#include "files/disk.h"
#include "run/history.h"
#include "run/run_folder.h"
#include "text/shell.h"
#include "trainer/startup/inputs.h"
#include "trainer/startup/later_phases.h"
#include "trainer/startup/missing_paths.h"
#include "trainer/startup/saved_model.h"

namespace llmc {

namespace fs = std::filesystem;

spec::Values built_values(const ProgramInfo& info, const fs::path& base) {
  try {
    spec::Values values = spec::read_values(info.spec_yaml, "spec.yaml");
    spec::resolve_paths(values.spec, base);
    return values;
  } catch (const std::invalid_argument& error) {
    throw Failure(Exit::internal, fmt::format("the spec in this trainer: {}", error.what()));
  }
}

spec::Values read_spec(const std::string& text, const fs::path& folder) {
  try {
    spec::Values values = spec::read_values(text, (folder / "spec.yaml").string());
    spec::resolve_paths(values.spec, folder);
    return values;
  } catch (const std::invalid_argument& error) {
    throw Failure(Exit::checkpoint, fmt::format("'{}' cannot be read: {}. Restore it, or choose another --run",
                                                (folder / "spec.yaml").string(), error.what()));
  }
}

namespace {

/// Whether one of the paths is that of the key, or of a member of its entries.
bool names(const std::vector<std::string>& paths, const spec::Key& key) {
  constexpr std::string_view kEntry = "NAME";
  const std::string group =
      key.path.ends_with(kEntry) ? key.path.substr(0, key.path.size() - kEntry.size()) : key.path + ".";
  return std::ranges::any_of(paths,
                             [&](const std::string& path) { return path == key.path || path.starts_with(group); });
}

}  // namespace

spec::Values go_on_with(const spec::Values& built, const spec::Values& before, bool whole,
                        const std::vector<std::string>& followed) {
  spec::Values values = built;
  for (const spec::Key& key : spec::keys()) {
    if (key.stage != spec::Stage::run_time || (key.aside && !whole) || names(followed, key)) continue;
    if (!spec::applies(key, before.spec)) continue;  // the run has no value of its own
    key.set(values.spec, key.get(before.spec));
    values.derived.erase(key.path);
    if (before.derived.count(key.path) && key.path != "batch.tokens") values.derived.insert(key.path);
  }
  return values;
}

namespace {

/// Returns whether a message names the key, by its path or the last part of it.
bool names_key(const std::string& message, const std::string& path) {
  const auto in_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  const std::string leaf = spec::leaf_of(path);
  for (std::size_t at = message.find(leaf); at != std::string::npos; at = message.find(leaf, at + 1)) {
    const std::size_t end = at + leaf.size();
    if ((end < message.size() && in_word(message[end])) || (at > 0 && in_word(message[at - 1]))) continue;
    const std::size_t begin = at + leaf.size() - std::min(path.size(), end);
    if (at == 0 || message[at - 1] != '.' || message.compare(begin, path.size(), path) == 0) return true;
  }
  return false;
}

/// Phases end at compiled-in steps, so that a run of theirs keeps its length.
void check_length(const ProgramInfo& info, const StartValues& values) {
  const spec::Spec &built = values.built.spec, &run = values.run.spec;
  if (info.phase.count == 1 || run.schedule.steps == built.schedule.steps) return;
  throw Failure(
      Exit::usage,
      fmt::format("with batch.tokens {}, schedule.tokens {} are {} steps, and the phases of this "
                  "run end at steps of {}. Leave batch.tokens out, or compile the spec with it",
                  run.batch.tokens, spec::text_of("schedule.tokens", run), run.schedule.steps, built.schedule.steps));
}

}  // namespace

void with_origins(const Options& options, const StartValues& values, const std::function<void()>& check) try {
  check();
} catch (const Failure& failure) {
  if (!values.before || options.follow_spec) throw;
  std::string kept;
  for (const spec::Change& c : spec::changes(values.built.spec, values.before->spec))
    if (c.key->stage == spec::Stage::run_time && !overrides(options, c.path) && names_key(failure.what(), c.path))
      kept += fmt::format(
          "\n{} {} is the run's own value, from '{}'. This trainer was built with {}, which --follow-spec takes",
          c.path, c.after, values.kept_in.string(), c.before);
  if (kept.empty()) throw;
  throw Failure(failure.code(), failure.what() + kept);
}

StartValues find_values(const Options& options, const ProgramInfo& info, const std::optional<std::string>& kept,
                        const std::optional<StartPoint>& start) {
  StartValues values{built_values(info, options.base), {}, {}, {}};
  // A trainer of several phases passes borders between two saves, so that the folder's spec.yaml may be of another
  // phase than the checkpoint.
  const bool of_folder = kept && !(info.phase.shares_trainer() && start);
  const fs::path folder = of_folder ? disk::absolute(options.run, Exit::checkpoint).lexically_normal()
                          : start   ? start->checkpoint
                                    : fs::path();
  if (of_folder)
    values.before = read_spec(*kept, folder);
  else if (start)
    values.before = read_spec(read_checkpoint_spec(start->checkpoint), folder);
  if (values.before) values.kept_in = folder / "spec.yaml";
  const bool keeps = values.before && !options.follow_spec && (start || !info.phase.shares_trainer());
  values.run = keeps ? go_on_with(values.built, *values.before, of_folder, options.followed) : values.built;
  if (keeps && info.phase.count > 1)  // its borders are steps of the trainer's own length
    for (const char* path : {"schedule.steps", "schedule.tokens"})
      spec::find_key(path)->set(values.run.spec, spec::find_key(path)->get(values.built.spec));
  with_origins(options, values, [&] {
    values.run = spec::override_values(values.run, options.overrides, disk::working_folder(Exit::usage));
    check_length(info, values);
  });
  if (values.before && !of_folder)  // a checkpoint does not contain these keys, so they count as unchanged
    for (const spec::Key& key : spec::keys())
      if (key.aside) key.set(values.before->spec, key.get(values.run.spec));
  return values;
}

StartValues values_of_phase(const Options& options, const ProgramInfo& info, const StartValues& before) {
  StartValues values{built_values(info, options.base), {}, before.run, before.kept_in};
  const std::vector<std::string> changed(info.phase.changed.begin(), info.phase.changed.end());
  const spec::Values run = options.follow_spec ? values.built : go_on_with(values.built, before.run, false, changed);
  values.run = spec::override_values(run, options.overrides, disk::working_folder(Exit::usage));
  check_length(info, values);
  return values;
}

std::int64_t last_step(const Options& options, const ProgramInfo& info, const StartValues& values) {
  const std::int64_t steps = values.run.spec.schedule.steps, stop = options.steps.value_or(steps);
  if (stop > steps)
    with_origins(options, values, [&] {
      throw Failure(Exit::usage,
                    fmt::format("--steps {} is past schedule.steps {}, where the learning rate ends. {}", stop, steps,
                                info.phase.count > 1
                                    ? fmt::format("The borders of the phases are compiled in: use `llmc run SPEC "
                                                  "schedule.steps={}`, or `llmc compile` with that key",
                                                  stop)
                                    : fmt::format("Give schedule.steps={} as well", stop)));
    });
  return stop;
}

void check_paths(const Options& options, const StartValues& values, bool kept) {
  const std::vector<MissingPath> missing = missing_paths(values.run.spec, {});
  if (missing.empty()) return;
  const std::vector<MissingPath> also_of_trainer = missing_paths(values.built.spec, {});
  std::vector<std::string> command = options.command;
  std::string text;
  for (const auto& [key, path, hint] : missing) {
    const std::string of_run =
        kept ? fmt::format("'{}' (relative paths in it are from its folder, which may have been moved)",
                           (disk::absolute(options.run, Exit::checkpoint).lexically_normal() / "spec.yaml").string())
             : fmt::format("the spec (relative paths in it are from '{}')", options.base.string());
    text += fmt::format("no file matches '{}', which is {} of {}{}\n", path.string(), key,
                        overrides(options, key) ? "the command line" : of_run, hint);
    // Suggests the trainer's own path if it exists: a run folder that was moved may have broken its relative paths.
    const bool known = !overrides(options, key) &&
                       std::ranges::none_of(also_of_trainer, [&](const MissingPath& m) { return m.key == key; }) &&
                       !spec::path_at(key, values.built.spec).empty();
    std::erase_if(command, [&](const std::string& word) { return word.starts_with(key + "="); });
    command.push_back(key + "=" + (known ? spec::path_at(key, values.built.spec) : "PATH"));
  }
  throw Failure(Exit::data, fmt::format("{}Give the right path{}, or make data with `llmc data build`:\n  {}", text,
                                        missing.size() > 1 ? "s" : "", shell_line(command)));
}

fs::path other_spec(const fs::path& run, const fs::path& spec) {
  const std::string last = last_spec(RunFolder::history(run));
  if (last.empty() || spec.empty()) return {};
  const fs::path folder = disk::weakly_canonical(run, Exit::checkpoint), other = (folder / last).lexically_normal();
  std::error_code missing;
  const bool same = fs::equivalent(other, spec, missing) || fs::equivalent(folder / "spec.yaml", spec, missing);
  return same || !fs::exists(other, missing) ? fs::path() : other;
}

void check_spec(const Options& options, const fs::path& spec) {
  const fs::path other = other_spec(options.run, spec);
  if (other.empty() || options.run_named) return;
  throw Failure(Exit::checkpoint,
                fmt::format("run folder '{0}' was last started by a trainer of '{1}', but this one is of '{2}', a spec "
                            "of the same name. Write another `name` in one of them, or give this run its own folder "
                            "with --run DIR (--run {3} resumes the run that is there)",
                            options.run.string(), other.string(), spec.string(), shell_word(options.run.string())));
}

void check_start(const Options& options, const ProgramInfo& info, const fs::path& spec) {
  check_spec(options, spec);
  RunFolder::check_model(options.run, built_values(info, options.base).spec, options.allow);
  const std::optional<std::string> kept = RunFolder::spec_yaml(options.run);
  const StartValues values = find_values(options, info, kept, {});
  // The schedule of another run's checkpoint may be longer, and its data different.
  if (!kept && options.resume != "auto" && options.resume != "none") return;
  last_step(options, info, values);
  check_paths(options, values, kept.has_value());
  with_origins(options, values, [&] {
    const Inputs inputs = open_inputs(values.run.spec, info);
    if (!info.phases_json) return;
    const TrainerPhases phases(info);
    check_epochs_ahead(options, phases, info, values, inputs.train, {}, 0);
  });
  if (const std::string& from = values.run.spec.init.from; !from.empty() && list_checkpoints(options.run).empty())
    find_weights(from, values.run.spec, {});
}

bool shapes_tensors(const spec::Key& key) { return !key.aside; }

}  // namespace llmc
