// llmc sweep: one run for each combination of values, on this machine or written out for a cluster.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "compiler/cli/build.h"
#include "compiler/cli/commands.h"
#include "compiler/cli/run_words.h"
#include "compiler/tools/sweep/cluster.h"
#include "compiler/tools/sweep/folder.h"
#include "compiler/tools/sweep/queue.h"
#include "compiler/tools/sweep/record.h"
#include "compiler/tools/sweep/table.h"
#include "files/disk.h"
#include "host/executable.h"
#include "host/limits.h"
#include "spec/fingerprint.h"
#include "spec/print.h"
#include "spec/schema/schema.h"
#include "spec/source.h"
#include "spec/validation_sets.h"
#include "text/message.h"
#include "text/plural.h"
#include "text/printable.h"
#include "text/shell.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

struct SweepOptions {
  SpecArguments spec;
  std::string out, prune, slurm, kubernetes;
  std::vector<int> devices;
  int jobs = 0, threads = 0;  // 0: not given

  bool is_for_cluster() const { return !slurm.empty() || !kubernetes.empty(); }
};

/// A trainer that several runs share.
struct SharedTrainer {
  std::vector<std::string> compiled;  // overrides
  std::unique_ptr<Planned> planned;   // null: cannot be planned
};

/// The runs of a grid with their trainers, all of them checked.
struct PlannedSweep {
  sweep::Record record;
  sweep::Record typed;  // grid and digest with paths as typed
  std::vector<SharedTrainer> trainers;
  std::vector<std::vector<std::string>> words;  // of each run, for its trainer
  std::vector<std::string> leading_sets;        // of each run; empty: it evaluates nothing
  bool cuda = false;
};

/// Collects what is wrong with single runs, so that all of it is told at once, and each thing once.
class Refusals {
 public:
  void add(const std::string& label, std::string why, Exit code) {
    while (why.ends_with('\n')) why.pop_back();
    auto at = std::ranges::find(all_, why, &Refusal::why);
    if (at == all_.end()) at = all_.insert(at, {spec::printable(label), std::move(why), 0});
    ++at->runs;
    ++runs_;
    code_ = code;
  }
  void throw_if_any() const {
    if (all_.empty()) return;
    std::string text = fmt::format("{} run{} of the grid cannot start; nothing was compiled", runs_, plural(runs_));
    for (const Refusal& each : all_)
      text += fmt::format("\n{}{}:\n{}", each.first, each.runs > 1 ? fmt::format(", and {} more", each.runs - 1) : "",
                          each.why);
    throw Failure(code_, text);
  }

 private:
  struct Refusal {
    std::string first, why;  // first: label of a run
    std::int64_t runs;
  };
  std::vector<Refusal> all_;
  std::int64_t runs_ = 0;
  Exit code_ = Exit::spec;
};

std::string run_name(std::size_t run) { return fmt::format("{:04}", run + 1); }

/// Values of a spec for a checksum that a newer llmc, with more keys, computes alike.
std::string lasting_text(const spec::Resolved& resolved) {
  return spec::to_yaml(spec::values_of(resolved), [&](const spec::Key& key) {
    return !key.newer || key.get(resolved.spec) != key.get(spec::spec_schema().defaults());
  });
}

/// Loads the spec of every run. Throws Failure if one is wrong, or if two are the same.
std::vector<spec::Resolved> load_runs(const SweepOptions& options, const sweep::Grid& grid) {
  std::vector<spec::Resolved> specs;
  std::map<std::string, std::size_t> texts;
  Refusals refusals;
  for (std::size_t run = 0; run < grid.size(); ++run) {
    spec::LoadResult result = read_spec({options.spec.file, grid.words_of(run)});
    if (!result.phases.empty() || (result.resolved && result.resolved->spec.phase.count > 1))
      throw Failure(Exit::usage, fmt::format("'{}' has phases, and a sweep's runs have one trainer each. Sweep a spec "
                                             "without them",
                                             spec::printable(options.spec.file)));
    if (!result.resolved) {
      refusals.add(grid.label(run), spec::render(result.diagnostics, false), Exit::spec);
      continue;
    }
    if (const auto [same, is_new] = texts.try_emplace(lasting_text(*result.resolved), run); !is_new)
      refusals.add(grid.label(run), fmt::format("is the same run as {}", spec::printable(grid.label(same->second))),
                   Exit::usage);
    specs.push_back(std::move(*result.resolved));
  }
  refusals.throw_if_any();
  return specs;
}

std::string digest_of(std::span<const spec::Resolved> specs) {
  Checksum sum;
  for (const spec::Resolved& resolved : specs) {
    const std::string text = lasting_text(resolved);
    sum.update(text.data(), text.size());
  }
  return sum.hex();
}

/// Makes the paths of specs absolute, so that they do not depend on where a command was typed.
std::vector<spec::Resolved> with_absolute_paths(std::vector<spec::Resolved> specs) {
  for (spec::Resolved& resolved : specs) {
    const fs::path directory = disk::canonical_if_known(resolved.directory);
    for (const spec::Key& key : spec::keys())
      spec::change_paths(key, resolved.spec, [&](const std::string&, const std::string& path) {
        return (directory / path).lexically_normal().string();
      });
  }
  return specs;
}

/// Does the same for the words of a grid. `specs`: of its runs.
sweep::Grid with_absolute_paths(sweep::Grid grid, std::span<const spec::Resolved> specs) {
  const auto value_of = [](const std::string& key, const std::string& typed, const spec::Resolved& run) {
    const std::optional<std::string> path = absolute_path(key, run);
    if (!path) return typed;
    return path->find_first_of(",[]{}'\"") == std::string::npos ? *path : spec::yaml_string(*path);  // see parse_grid()
  };
  for (std::string& word : grid.fixed) {
    const std::string key = word.substr(0, word.find('='));
    word = key + "=" + value_of(key, word.substr(key.size() + 1), specs[0]);
  }
  for (std::size_t i = 0; i < grid.axes.size(); ++i)
    for (std::size_t value = 0; value < grid.axes[i].values.size(); ++value) {
      std::vector<std::size_t> place(grid.axes.size());
      place[i] = value;
      std::string& word = grid.axes[i].values[value];
      word = value_of(grid.axes[i].key, word, specs[grid.run_at(place)]);
    }
  return grid;
}

/// Returns the words of a command line that parse_grid() reads as this grid.
std::vector<std::string> words_of(const sweep::Grid& grid) {
  std::vector<std::string> words = grid.fixed;
  for (const sweep::Axis& axis : grid.axes)
    words.push_back(fmt::format("{}={}", axis.key, fmt::join(axis.values, ",")));
  return words;
}

/// Returns the record of an earlier start of this sweep. Throws Failure(usage) if the folder holds another sweep.
/// `typed`: grid and digest with paths as typed, which older records have.
std::optional<sweep::Record> earlier(const sweep::Record& record, const sweep::Record& typed, const fs::path& folder) {
  std::optional<sweep::Record> before = sweep::read(folder);
  const auto is_same = [&](const sweep::Record& now) {
    return before->grid == now.grid && before->digest == now.digest;
  };
  if (!before || is_same(record) || is_same(typed)) return before;
  const std::string why = before->grid != record.grid && before->grid != typed.grid
                              ? "another grid: " + shell_line(words_of(before->grid))
                              : "this grid over another spec: values of the spec were changed since";
  throw Failure(Exit::usage, fmt::format("'{}' holds the sweep of {}. Write another -o", folder.string(), why));
}

/// Replaces the mirror in a run's words by a folder in it, because a mirror belongs to one run.
void give_own_mirror(std::vector<std::string>& words, const spec::Resolved& run, const fs::path& own) {
  if (run.spec.checkpoint.mirror.empty()) return;
  const std::string key = "checkpoint.mirror=";
  std::erase_if(words, [&](const std::string& word) { return word.starts_with(key); });
  const fs::path mirror = fs::path(run.directory) / run.spec.checkpoint.mirror / own;
  words.push_back(key + disk::absolute(mirror, Exit::usage).lexically_normal().string());
}

/// Returns the word of the validation set by which a run is ranked; empty if the run evaluates nothing.
std::string evaluated_set(const spec::Spec& spec) {
  if (spec.evaluation.every == 0 || spec::validation_sets(spec.data).empty()) return "";
  return spec::ValidationSet{spec::leading_set(spec), {}}.word();
}

/// Plans each distinct trainer, and checks each run as its trainer will.
PlannedSweep plan_runs(const SweepOptions& options, const sweep::Grid& grid, const fs::path& folder) {
  PlannedSweep plan;
  plan.record.spec = disk::canonical(options.spec.file, Exit::usage).string();
  const std::vector<spec::Resolved> specs = load_runs(options, grid);
  plan.typed.grid = grid;
  plan.typed.digest = digest_of(specs);
  plan.record.grid = with_absolute_paths(grid, specs);
  plan.record.digest = digest_of(with_absolute_paths(specs));
  earlier(plan.record, plan.typed, folder);  // before the runs in it are held against this grid
  plan.cuda = specs[0].spec.target.kind == spec::TargetKind::cuda;
  const std::string name = (folder / "").parent_path().filename().string();  // also of a path that ends with a slash
  std::map<std::vector<std::string>, std::size_t> known;
  Refusals refusals;
  for (std::size_t i = 0; i < specs.size(); ++i) try {
      const RunWords words = sort_words({options.spec.file, grid.words_of(i)}, std::span(specs).subspan(i, 1));
      const auto [build, is_new] = known.try_emplace(words.compiled, known.size());
      if (is_new) {
        plan.trainers.push_back({words.compiled, nullptr});
        plan.trainers.back().planned =
            std::make_unique<Planned>(plan_loaded(load_spec({options.spec.file, words.compiled}, false), true));
      }
      sweep::Run run{.folder = "runs/" + run_name(i), .build = build->second, .reason = {}, .loss = {}, .val_loss = {}};
      run.steps = specs[i].spec.schedule.steps;
      std::vector<std::string> argv = {"--run", (folder / run.folder).string()};
      argv.insert(argv.end(), words.run_time.begin(), words.run_time.end());
      give_own_mirror(argv, specs[i], fs::path(name) / run_name(i));
      if (const auto& planned = plan.trainers[build->second].planned) {
        check_trainer_words(*planned, argv, {});
        if (!options.is_for_cluster()) check_gpu(planned->plan.spec);  // a cluster's machines have their own
      }
      plan.record.runs.push_back(std::move(run));
      plan.words.push_back(std::move(argv));
      plan.leading_sets.push_back(evaluated_set(specs[i].spec));
    } catch (const Failure& failure) {
      if (failure.code() == Exit::internal) throw;
      refusals.add(grid.label(i), failure.what(), failure.code());
    }
  refusals.throw_if_any();
  for (std::size_t i = 0; i < plan.trainers.size(); ++i)
    plan.record.builds.push_back({fmt::format("builds/{}", i + 1), plan.trainers[i].compiled});
  return plan;
}

/// Throws Failure(usage) for options of runs that this machine trains.
void refuse_for_cluster(const SweepOptions& options) {
  if (!options.is_for_cluster()) return;
  const char* const cluster = options.slurm.empty() ? "--kubernetes" : "--slurm";
  if (!options.prune.empty())
    throw Failure(Exit::usage,
                  fmt::format("--prune ends runs that llmc trains itself, and {} trains none. Leave it out", cluster));
  if (!options.devices.empty())
    throw Failure(Exit::usage, fmt::format("--devices is of this machine's GPUs, and with {} the cluster chooses them. "
                                           "Leave it out, or write --jobs N for runs at a time",
                                           cluster));
}

/// Returns how many runs train at a time. Throws Failure(usage).
std::size_t places_of(const SweepOptions& options, bool cuda) {
  if (!cuda && !options.devices.empty())
    throw Failure(Exit::usage,
                  "--devices is of GPUs, and this spec's target.kind is cpu. Write --jobs N for runs at a "
                  "time, and --threads N for the threads of each");
  if (cuda && options.threads)
    throw Failure(Exit::usage, "--threads is of processors, and this spec's target.kind is cuda. Leave it out");
  if (std::set<int>(options.devices.begin(), options.devices.end()).size() != options.devices.size())
    throw Failure(Exit::usage, "--devices names a device twice. A device has one run at a time");
  const auto devices = static_cast<int>(options.devices.size());
  if (devices && options.jobs > devices)
    throw Failure(Exit::usage, fmt::format("--jobs {} is more than the {} device{} of --devices. A device has one run "
                                           "at a time",
                                           options.jobs, devices, plural(devices)));
  return static_cast<std::size_t>(options.jobs ? options.jobs : std::max(1, devices));
}

/// Returns the command that goes on with this sweep, for a message and for scripts.
std::string same_command(const SweepOptions& options, const sweep::Record& record, const fs::path& folder) {
  std::vector<std::string> line = {(executable_folder() / "llmc").string(), "sweep", record.spec};
  const std::vector<std::string> words = words_of(record.grid);
  line.insert(line.end(), words.begin(), words.end());
  line.insert(line.end(), {"-o", folder.string()});
  const auto add = [&](const char* option, const std::string& value) { line.insert(line.end(), {option, value}); };
  if (options.jobs) add("--jobs", std::to_string(options.jobs));
  if (options.threads) add("--threads", std::to_string(options.threads));
  if (!options.devices.empty()) add("--devices", fmt::format("{}", fmt::join(options.devices, ",")));
  if (!options.prune.empty()) add("--prune", options.prune);
  return shell_line(line);
}

/// Returns a run's trainer and arguments, without its device or threads.
std::vector<std::string> command_of(const PlannedSweep& plan, const fs::path& folder, std::size_t run) {
  const sweep::Build& build = plan.record.builds[plan.record.runs[run].build];
  std::vector<std::string> argv = {(folder / build.folder / "trainer").string()};
  argv.insert(argv.end(), plan.words[run].begin(), plan.words[run].end());
  return argv;
}

/// Returns the same of an evaluation of the run's last step; empty if the run does not evaluate it.
std::vector<std::string> evaluation_of(const PlannedSweep& plan, const fs::path& folder, std::size_t run) {
  if (plan.leading_sets[run].empty()) return {};
  return {(folder / plan.record.builds[plan.record.runs[run].build].folder / "trainer").string(),
          "evaluate",
          "--checkpoint",
          (folder / plan.record.runs[run].folder).string(),
          "--validation",
          plan.leading_sets[run],
          "--json"};
}

void write_for_cluster(const SweepOptions& options, const PlannedSweep& plan, const fs::path& folder) {
  const bool slurm = !options.slurm.empty();
  const std::string& file = slurm ? options.slurm : options.kubernetes;
  const char* option = slurm ? "--slurm" : "--kubernetes";
  std::vector<sweep::ClusterRun> missing;
  std::vector<std::string> training;
  for (std::size_t run = 0; run < plan.words.size(); ++run) {
    const sweep::State state = plan.record.runs[run].state;
    if (state == sweep::State::running)
      training.push_back(run_name(run));
    else if (!sweep::is_final(state))
      missing.push_back({run + 1, command_of(plan, folder, run)});
  }
  if (!training.empty())
    to_stderr("left out, because {} now: {}\n", training.size() == 1 ? "it trains" : "they train",
              fmt::join(training, ", "));
  if (missing.empty()) {
    to_stderr("all {}runs are done; {} was not written\n", training.empty() ? "" : "other ", printable(file));
    return;
  }
  const sweep::ClusterJob job{
      .again = fmt::format("{} {} {}", same_command(options, plan.record, folder), option,
                           shell_word(disk::absolute(file, Exit::usage).lexically_normal().string())),
      .logs = (folder / "logs").string(),
      .cuda = plan.cuda,
      .threads = options.threads ? options.threads
                 : plan.cuda     ? 8
                                 : 1,
      .at_once = static_cast<std::size_t>(options.jobs)};
  write_file_atomically(file, slurm ? sweep::slurm_array(missing, job) : sweep::kubernetes_job(missing, job),
                        {Exit::usage, option});
  to_stderr("{}: {} run{}\n", printable(file), missing.size(), plural(static_cast<std::int64_t>(missing.size())));
}

int run_sweep(const SweepOptions& options) {
  refuse_pipe(options.spec.file);
  refuse_for_cluster(options);
  const sweep::Grid grid = sweep::parse_grid(options.spec.overrides);
  const std::optional<sweep::PruneRule> rule =
      options.prune.empty() ? std::nullopt : std::optional(sweep::parse_rule(options.prune));
  PlannedSweep plan = plan_runs(options, grid, disk::weakly_canonical(options.out, Exit::usage));
  const std::size_t places = places_of(options, plan.cuda);
  const sweep::Folder folder(options.out);
  const fs::path& path = folder.path();
  if (const std::optional<sweep::Record> before = earlier(plan.record, plan.typed, path))
    for (std::size_t run = 0; run < plan.record.runs.size(); ++run) plan.record.runs[run].take_end(before->runs[run]);
  make_directories(path / "logs", {Exit::usage, "-o"});
  sweep::look_up(plan.record, path);
  sweep::write(path, plan.record);
  for (std::size_t i = 0; i < plan.trainers.size(); ++i) {
    BuildOptions build;
    build.out = (path / plan.record.builds[i].folder).string();
    compile(*plan.trainers[i].planned, build);
  }
  if (options.is_for_cluster()) {
    write_for_cluster(options, plan, path);
    fmt::print("{}", sweep::as_text(plan.record));
    return 0;
  }
  const int threads =
      options.threads ? options.threads : std::max(1, HostLimits().processors() / static_cast<int>(places));
  const auto in_place = [&](std::vector<std::string> argv, std::size_t place) {
    if (argv.empty()) return argv;
    const int device = options.devices.empty() ? static_cast<int>(place) : options.devices[place];
    argv.insert(argv.end(), {plan.cuda ? "--device" : "--threads", std::to_string(plan.cuda ? device : threads)});
    return argv;
  };
  const int code = sweep::work_off(
      plan.record,
      {.folder = path,
       .places = places,
       .rule = rule,
       .command = [&](std::size_t run, std::size_t place) { return in_place(command_of(plan, path, run), place); },
       .evaluation = [&](std::size_t run,
                         std::size_t place) { return in_place(evaluation_of(plan, path, run), place); },
       .say = [](const std::string& line) { to_stderr("{}\n", printable_text(line)); }});
  fmt::print("{}", sweep::as_text(plan.record));
  if (code == static_cast<int>(Exit::resume_me))
    to_stderr("not all runs are done. To go on: {}\n", printable_text(same_command(options, plan.record, path)));
  return code;
}

}  // namespace

void add_sweep_command(CLI::App& app, Result& result) {
  auto options = std::make_shared<SweepOptions>();
  CLI::App* command = app.add_subcommand("sweep", "train one run for each combination of values, and rank them");
  command->add_option("spec", options->spec.file, "the runs' YAML file")->required();
  command
      ->add_option("overrides", options->spec.overrides,
                   "key.path=value, for all runs, and key.path=value,value, one run for each")
      ->required();
  command->add_option("-o,--out", options->out, "folder of the sweep; the same command resumes it")->required();
  command->add_option("-j,--jobs", options->jobs, "runs at a time (default: one, or one per device; of a cluster all)")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  command->add_option("--devices", options->devices, "GPUs, one run at a time on each (default: the first --jobs)")
      ->delimiter(',')
      ->type_name("N,N")
      ->check(CLI::Range(0, 1023));
  command->add_option("--threads", options->threads, "threads of a run (default: the processors over --jobs)")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  command
      ->add_option("--prune", options->prune,
                   "MARGIN@SHARE%: after each such share of its steps end a run whose loss is that far behind the "
                   "best one, such as 0.2@25%")
      ->type_name("RULE");
  CLI::Option* slurm = command->add_option(
      "--slurm", options->slurm, "build, and write an array job of SLURM to FILE for the runs that are not done");
  command->add_option("--kubernetes", options->kubernetes, "build, and write a job of Kubernetes to FILE likewise")
      ->excludes(slurm);
  command->footer(
      "Example: llmc sweep specs/quickstart.yaml optimizer.lr=1e-3,2e-3,4e-3 schedule.steps=100 -o build/rates");
  command->callback([options, &result] { result.exit_code = run_sweep(*options); });
}

}  // namespace llmc::cli
