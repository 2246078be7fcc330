#include <fmt/format.h>

#include <fstream>
#include <memory>

#include "compiler/cli/build.h"
#include "compiler/cli/commands.h"
#include "compiler/cli/device_overrides.h"
#include "compiler/cli/trainers.h"
#include "compiler/emit/kernel_sources.h"
#include "compiler/tools/report/advice_report.h"
#include "compiler/tools/report/diff.h"
#include "compiler/tools/report/kernel_report.h"
#include "compiler/tools/report/measured.h"
#include "compiler/tools/report/phases_report.h"
#include "compiler/tools/report/plan_page.h"
#include "compiler/tools/report/plan_report.h"
#include "compiler/tools/report/time_report.h"
#include "error.h"
#include "files/disk.h"
#include "files/durable_file.h"
#include "program/shards.h"
#include "spec/print.h"
#include "spec/schema/schema.h"
#include "spec/values.h"
#include "text/message.h"
#include "text/option_checks.h"
#include "text/plural.h"
#include "text/shell.h"

namespace llmc::cli {

namespace {

struct PlanOptions {
  SpecArguments spec;
  BuildOptions build;
  bool json = false, hints = false, launches = false, kernels = false, pin = false;
  int world = 0;
  double price = 0;
  std::string explain, measured, html, device;
};

struct DiffOptions {
  SpecArguments a, b;
  bool full = false, json = false;
};

/// Returns the keys of the resolved spec as text for the comparison.
std::map<std::string, std::string> key_values(const std::string& keys_json) {
  std::map<std::string, std::string> values;
  for (const auto& key : nlohmann::json::parse(keys_json)) values[key.at("key")] = key.at("value").dump();
  values.erase("name");
  return values;
}

/// A side of the comparison. It points into the plan next to it.
struct Loaded {
  Planned planned;
  report::Side side;
};

bool is_native(const spec::Resolved& resolved) {
  return resolved.spec.target.kind == spec::TargetKind::cpu &&
         resolved.spec.target.arch == std::vector<std::string>{"native"};
}

std::unique_ptr<Loaded> plan_side(const std::string& label, spec::Resolved resolved, bool here) try {
  auto loaded = std::make_unique<Loaded>();
  loaded->planned = plan_loaded(std::move(resolved), here);
  loaded->side = {label, &loaded->planned.plan, key_values(spec::keys_json(loaded->planned.resolved)),
                  emit::emit_project(loaded->planned.plan, loaded->planned.texts, source_tree(build::find_home()),
                                     emit::Style::specialised)};
  return loaded;
} catch (const Failure& failure) {
  throw Failure(failure.code(), fmt::format("{}: {}", label, failure.what()));
}

/// Returns the keys with `auto` and `native` resolved and paths made absolute.
std::map<std::string, std::string> settled_values(const Planned& planned) {
  spec::Resolved settled = planned.resolved;
  settled.spec = plan::chosen_spec(planned.plan);
  spec::resolve_paths(settled.spec, disk::canonical(planned.resolved.directory, Exit::usage));
  return key_values(spec::keys_json(settled));
}

/// Removes differences between keys that are spelled differently and mean the same, and between derived values that one
/// side has no use for.
void settle(Loaded& a, Loaded& b) {
  const auto ours = settled_values(a.planned), theirs = settled_values(b.planned);
  const auto idle = [&](const spec::Key& key) {
    return !key.derivation.empty() &&
           !(spec::applies(key, a.planned.resolved.spec) && spec::applies(key, b.planned.resolved.spec));
  };
  for (auto& [key, value] : b.side.keys)
    if (ours.at(key) == theirs.at(key) || idle(*spec::find_key(key))) value = a.side.keys.at(key);
}

/// Returns plans of one side with one key set as in the other, if that is a valid spec that fits.
report::PlanAlone plans_alone(const Loaded& a, const Loaded& b) {
  return [&a, &b](const std::string& path, bool without) -> std::optional<plan::Plan> {
    const spec::Key& key = *spec::find_key(path);
    if (key.stage == spec::Stage::run_time && path != "batch.tokens") return {};
    spec::Resolved changed = without ? b.planned.resolved : a.planned.resolved;
    key.set(changed.spec, key.get(without ? a.planned.resolved.spec : b.planned.resolved.spec));
    const spec::LoadResult checked = spec::load_text(spec::to_yaml(changed, false), "one key");
    if (!checked.resolved) return {};
    return plan::fastest_plan(from_here(checked.resolved->spec, changed.directory));
  };
}

/// Prints the resolved spec with the planner's choices.
std::string pinned(const Planned& planned) {
  spec::Resolved resolved = planned.resolved;
  const std::vector<std::string> arch = resolved.spec.target.arch;
  const std::string device = resolved.spec.target.device;
  resolved.spec = plan::chosen_spec(planned.plan);
  resolved.spec.target.arch = arch;
  resolved.spec.target.device = device;
  return spec::to_yaml(resolved, false);
}

/// Returns ptxas' reports, after compiling kernels that are out of date.
report::KernelUses kernel_uses(const Planned& planned, const BuildOptions& options) {
  report::KernelUses uses;
  if (planned.plan.spec.target.kind != spec::TargetKind::cuda) {
    if (!options.out.empty() || options.jobs)
      throw Failure(Exit::usage,
                    "--out and --jobs work only with target.kind: cuda, because --kernels compiles nothing for the "
                    "CPU. Leave them out");
    return uses;
  }
  for (const auto& [kernel, file] : compile(planned, options).reports)
    uses[kernel] = build::parse_ptxas(emit::read_text(file), file.string());
  return uses;
}

/// Moves a word phase=N between the two specs to the first one.
void take_first_phase(DiffOptions& options) {
  if (!options.b.file.starts_with("phase=")) return;
  std::vector<std::string>& words = options.b.overrides;
  if (words.empty())
    throw Failure(Exit::usage, fmt::format("the second spec is missing. To compare phases of one: llmc diff {0} "
                                           "phase=1 {0} phase=2",
                                           options.a.file));
  options.a.overrides = {options.b.file};
  options.b.file = words.front();
  words.erase(words.begin());
}

std::string label_of(const SpecArguments& arguments) {
  std::string label = arguments.file;
  for (const std::string& word : arguments.overrides) label += " " + word;
  return spec::printable(label);
}

/// A comparison of two trainers' specs.
struct Compared {
  std::string text;
  nlohmann::ordered_json json;
  bool equal;
};

Compared compare_specs(const DiffOptions& options, spec::Resolved before, spec::Resolved after) {
  // Resolves `native` only if the other side names an architecture.
  const bool here = is_native(before) != is_native(after);
  const auto a = plan_side(label_of(options.a), std::move(before), here),
             b = plan_side(label_of(options.b), std::move(after), here);
  settle(*a, *b);
  const report::Difference difference = report::compare(a->side, b->side, plans_alone(*a, *b));
  return {report::diff_text(a->side, b->side, difference, options.full),
          report::diff_json(a->side, b->side, difference), difference.empty()};
}

/// Throws Failure(usage) if two specs cannot be compared phase by phase.
void check_alike(const std::vector<spec::Resolved>& before, const std::vector<spec::Resolved>& after,
                 const DiffOptions& options) {
  if (before.size() == after.size()) return;
  const auto phases = [](const auto& side) {
    return side.size() > 1 ? fmt::format("has {} phases", side.size()) : std::string("is one trainer");
  };
  const auto selected = [](const auto& side, const SpecArguments& arguments) {
    std::string words = shell_word(arguments.file);
    if (side.size() > 1) words += " phase=1";
    for (const std::string& word : arguments.overrides) words += " " + shell_word(word);
    return words;
  };
  throw Failure(Exit::usage, fmt::format("'{}' {} and '{}' {}. Select one with phase=1, or another number: "
                                         "llmc diff {} {}",
                                         label_of(options.a), phases(before), label_of(options.b), phases(after),
                                         selected(before, options.a), selected(after, options.b)));
}

/// Prints the differences, of specs with phases phase by phase. Returns whether there are none.
bool compare(const DiffOptions& options) {
  std::error_code unknown;  // an override may be longer than a file name may be
  const std::string& second = options.b.file;
  if (second.find('=') != std::string::npos && !std::filesystem::exists(second, unknown))
    throw Failure(Exit::usage, fmt::format("'{0}' is an override, but the second argument is a spec. To see what an "
                                           "override changes: llmc diff {1} {1} '{0}'",
                                           second, options.a.file));
  std::vector<spec::Resolved> before = load_phases(options.a), after = load_phases(options.b);
  check_alike(before, after, options);
  auto list = nlohmann::ordered_json::array();
  bool equal = true;
  for (std::size_t i = 0; i < before.size(); ++i) {
    const std::int64_t ends[] = {before[i].spec.phase.last, after[i].spec.phase.last};
    const Compared compared = compare_specs(options, std::move(before[i]), std::move(after[i]));
    equal &= compared.equal && (before.size() == 1 || ends[0] == ends[1]);
    if (options.json)
      list.push_back(before.size() == 1
                         ? compared.json
                         : nlohmann::ordered_json{{"phase", i + 1}, {"until", ends}, {"difference", compared.json}});
    else if (before.size() == 1)
      fmt::print("{}", compared.text);
    else
      fmt::print("{}phase {}, {}\n{}", i ? "\n" : "", i + 1,
                 ends[0] == ends[1] ? fmt::format("until step {}", ends[0])
                                    : fmt::format("until step {} -> {}", ends[0], ends[1]),
                 compared.text);
  }
  if (options.json) fmt::print("{}\n", (before.size() == 1 ? list.front() : list).dump(2));
  return equal;
}

/// Handles `llmc plan A B`, where the second argument is a spec. The other options apply to a single plan.
bool compared(const PlanOptions& options) {
  const std::vector<std::string>& words = options.spec.overrides;
  if (words.empty()) return false;
  const std::string& second = words[0];
  const bool named = second.find('=') == std::string::npos && (second.ends_with(".yaml") || second.ends_with(".yml"));
  std::error_code unknown;  // an override may be longer than a file name may be
  if (!named && !std::filesystem::exists(second, unknown)) return false;
  if (options.hints || options.launches || options.kernels || options.pin || options.world || options.price > 0 ||
      !options.device.empty() || !options.explain.empty() || !options.measured.empty() || !options.html.empty())
    throw Failure(
        Exit::usage,
        fmt::format(
            "'{}' is a second spec, and a comparison of two plans takes no option except --json. Leave out the others",
            words[0]));
  compare({{options.spec.file, {}}, {second, {words.begin() + 1, words.end()}}, false, options.json});
  return true;
}

void print_plan(const Planned& planned, const PlanOptions& options) {
  if (options.json && !options.hints) {
    fmt::print("{}", planned.texts.plan_json);
    return;
  }
  const plan::Limits limits = plan::limits(planned.plan);
  const std::vector<plan::Hint> hints = plan::hints(planned.plan);
  if (!options.json) {
    fmt::print("{}{}", planned.texts.plan_text, report::advice_text(planned.plan, limits, hints));
    return;
  }
  auto json = nlohmann::ordered_json::parse(planned.texts.plan_json);
  report::add_advice(json, limits, hints);
  fmt::print("{}\n", json.dump(2));
}

/// Adds the words of --device and --world to the spec's overrides, and prints those of --device.
void add_words(PlanOptions& options) {
  std::vector<std::string>&overrides = options.spec.overrides, words;
  if (options.world) words.push_back(fmt::format("parallel.world_size={}", options.world));
  overrides.insert(overrides.end(), words.begin(), words.end());
  if (!options.device.empty()) {
    const std::vector<std::string> of_device = overrides_for_device(options.spec, options.device);
    overrides.insert(overrides.end(), of_device.begin(), of_device.end());
    words.insert(words.begin(), of_device.begin(), of_device.end());
    to_stderr(
        "note: planned for {} with {}. To compile this plan give these arguments after the spec, or write them to the "
        "spec\n",
        printable(options.device), printable(shell_line(words)));
  }
}

void print_kernels(const Planned& planned, const PlanOptions& options) {
  const report::KernelUses uses = kernel_uses(planned, options.build);
  if (options.json)
    fmt::print("{}\n", report::kernels_json(planned.plan, uses).dump(2));
  else
    fmt::print("{}", report::kernels_text(planned.plan, uses));
}

/// Prints measured times next to the plan for the timeline's number of ranks.
void print_measured(const Planned& planned, const PlanOptions& options) {
  const int ranks = report::measured_ranks(options.measured, planned.plan.fingerprint);
  std::optional<Planned> others;
  if (planned.plan.spec.parallel.world_size != ranks) {
    SpecArguments words = options.spec;
    std::erase_if(words.overrides, [](const std::string& word) { return word.starts_with("parallel.world_size="); });
    words.overrides.push_back(fmt::format("parallel.world_size={}", ranks));
    others = plan_spec_here(words);
  }
  const Planned& run = others ? *others : planned;
  const report::Measured measured = report::read_measured(options.measured, run.plan);
  if (options.json) {
    auto json = nlohmann::ordered_json::parse(run.texts.plan_json);
    json["measured"] = report::measured_json(run.plan, measured);
    fmt::print("{}\n", json.dump(2));
  } else {
    fmt::print("{}", report::measured_text(run.plan, measured));
  }
}

/// Prints one table of all phases, or their sums and plans as JSON.
void print_phases(std::vector<spec::Resolved> phases, const PlanOptions& options) {
  const std::vector<Planned> planned = plan_phases(std::move(phases), true);
  std::vector<const plan::Plan*> plans;
  for (const Planned& phase : planned) plans.push_back(&phase.plan);
  if (options.json)
    fmt::print("{}\n", report::phases_plan_json(plans).dump(2));
  else
    fmt::print("{}phase=1 after the spec shows the plan of that phase\n", report::phases_text(plans, options.price));
}

/// Whether one aspect of a plan is asked for, which is of one phase.
bool has_aspect(const PlanOptions& options) {
  return options.kernels || options.launches || options.pin || options.hints || !options.explain.empty() ||
         !options.measured.empty() || !options.html.empty();
}

void run_plan(PlanOptions& options) {
  if (compared(options)) return;
  options.spec.piped = spec::read_pipe(options.spec.file);  // a plan may load its spec more than once
  add_words(options);
  std::vector<spec::Resolved> phases = load_phases(options.spec);
  if (phases.size() > 1 && !has_aspect(options)) return print_phases(std::move(phases), options);
  const Planned planned = plan_loaded(only(std::move(phases), options.spec), true);
  if (options.kernels)
    print_kernels(planned, options);
  else if (options.launches)
    fmt::print("{}", report::launches_markdown(planned.plan));
  else if (!options.explain.empty())
    fmt::print("{}", report::explain_text(planned.plan, options.explain));
  else if (!options.measured.empty())
    print_measured(planned, options);
  else if (!options.html.empty()) {
    write_file_atomically(options.html, report::plan_page(planned.plan), {Exit::usage, "--html"});
    fmt::print("{}\n", options.html);
  } else if (options.pin)
    fmt::print("{}", pinned(planned));
  else
    print_plan(planned, options);
  if (options.price > 0) fmt::print("{}", report::cost_text(planned.plan, options.price));
}

/// Adds the specs, the plan as JSON, and the lists of launches and kernels.
void add_lists(CLI::App* command, PlanOptions& options) {
  command->add_option("spec", options.spec.file, "the run's YAML file")->required();
  command->add_option("overrides", options.spec.overrides,
                      "key.path=value; or a second spec and its key.path=value, to compare both plans");
  command->add_flag(
      "--json", options.json,
      "print plan.json on standard output, of phases all and the whole run; with --kernels: the kernels as JSON");
  command->add_flag("--hints", options.hints, "also report the largest batch that fits, and changes that save time")
      ->needs("--json");
  auto* launches = command->add_flag("--launches", options.launches,
                                     "print every launch with its bytes and FLOPs, as a page in Markdown");
  auto* kernels = command->add_flag(
      "--kernels", options.kernels,
      "print every kernel with its bytes and FLOPs; for CUDA also registers, spills, shared memory and "
      "occupancy as ptxas reports them, which compiles kernels that are not built yet");
  launches->excludes("--json")->excludes(kernels);
  kernels->excludes("--hints");
  command->add_option("-o,--out", options.build.out, "folder of the project (default build/<name>)")->needs(kernels);
  add_jobs(command, options.build.jobs)->needs(kernels);
}

/// Adds the options that plan for other ranks or another device than the spec's.
void add_machines(CLI::App* command, PlanOptions& options) {
  command
      ->add_option("--world", options.world,
                   "plan for N ranks (parallel.world_size=N), with the memory and traffic of each")
      ->type_name("N")
      ->check(CLI::Range(1, kMostRanks));
  command
      ->add_option("--device", options.device,
                   "plan for this device of `llmc devices`, or the file of one: sets target.arch, memory.budget and "
                   "other keys of the device, and prints them")
      ->type_name("NAME");
}

/// Adds the options that print one aspect of the plan. CLI11 wants the excluded ones added first.
void add_aspects(CLI::App* command, PlanOptions& options) {
  const auto aspect = [&](CLI::Option* option, const std::vector<std::string>& excluded) {
    for (const std::string& name : excluded) option->excludes(name);
    return option;
  };
  aspect(command->add_option("--explain", options.explain,
                             "show how the time of this op or kernel is predicted, with numbers"),
         {"--json", "--kernels", "--launches"})
      ->type_name("OP");
  aspect(command->add_flag("--pin", options.pin, "print the spec with the value of every `auto`"),
         {"--explain", "--json", "--kernels", "--launches"});
  aspect(command->add_option("--price", options.price, "print the cost of the run at this price of a device-hour"),
         {"--json", "--kernels", "--launches", "--pin"})
      ->type_name("PRICE")
      ->check(finite_above(0, kMostPrice));
  aspect(command->add_option(
             "--measured", options.measured,
             "compare predicted times with a timeline of this plan's trainer (trainer --timeline FILE), op by op"),
         {"--hints", "--kernels", "--launches", "--explain", "--pin"})
      ->type_name("FILE");
  aspect(command->add_option(
             "--html", options.html,
             "write the plan as one page, FILE.html: memory over the step, time by op, streams, other choices"),
         {"--hints", "--json", "--kernels", "--launches", "--explain", "--measured", "--pin"})
      ->type_name("FILE");
}

void add_plan(CLI::App& app) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "predict memory, launches, FLOPs and time of the run");
  add_lists(command, *options);
  add_machines(command, *options);
  add_aspects(command, *options);
  command->footer(
      "Example: llmc plan specs/llama-1b.yaml batch.micro_batch=8 memory.recompute=full\n"
      "         llmc plan specs/llama-1b.yaml --world 8\n"
      "         llmc plan specs/llama-1b.yaml batch.micro_batch=auto memory.loss_chunk=auto --device rtx-4090 --world "
      "8\n"
      "         llmc plan specs/llama-1b.yaml specs/llama-1b.yaml memory.recompute=full\n"
      "         llmc plan specs/llama-1b.yaml --kernels");
  command->callback([options] { run_plan(*options); });
}

void add_diff(CLI::App& app, Result& result) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand("diff", "show what changes between the trainers of two specs");
  command->add_option("a", options->a.file, "the first spec")->required();
  command->add_option("b", options->b.file, "the second spec; phase=N before it selects a phase of the first")
      ->required();
  command->add_option("overrides", options->b.overrides, "key.path=value, for the second spec");
  command->add_flag("--full", options->full, "show the differences of the generated sources");
  command->add_flag("--json", options->json, "as JSON on standard output");
  command->footer(
      "Exit code 0: the same spec, up to its name; 1: they differ.\n"
      "Example: llmc diff specs/quickstart.yaml specs/quickstart.yaml model.hidden_size=320 --full\n"
      "         llmc diff specs/seed-1b.yaml phase=1 specs/seed-1b.yaml phase=2");
  command->callback([options, &result] {
    take_first_phase(*options);
    result.exit_code = compare(*options) ? 0 : 1;
  });
}

}  // namespace

void add_plan_commands(CLI::App& app, Result& result) {
  add_plan(app);
  add_diff(app, result);
}

}  // namespace llmc::cli
