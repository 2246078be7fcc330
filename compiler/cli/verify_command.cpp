#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "compiler/build/process.h"
#include "compiler/cli/build.h"
#include "compiler/cli/commands.h"
#include "compiler/cli/trainers.h"
#include "compiler/tools/float64/reduce.h"
#include "compiler/tools/float64/report.h"
#include "compiler/tools/float64/verification.h"
#include "files/disk.h"
#include "host/limits.h"
#include "spec/print.h"
#include "spec/source.h"
#include "text/message.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

/// FLOPs of the interpreter above which micro-batches are shortened: minutes of a laptop.
constexpr double kLongRun = 2e12;

constexpr char kSpecFile[] = "spec.yaml";

struct VerifyOptions {
  SpecArguments spec;
  std::string out, dump, trainer;
  std::int64_t steps = 2;
  int jobs = 0;
  bool json = false, emit_only = false;
};

void say(const std::string& line) { to_stderr("{}\n", line); }

/// Plans the reduced run as a spec of its own in `folder`.
Planned plan_reduced(const Planned& users, const float64::Reduction& reduction, const fs::path& folder) {
  spec::Resolved resolved = users.resolved;
  resolved.spec = reduction.spec;
  emit::write_project({{kSpecFile, spec::to_yaml(resolved, false)}}, folder, {}, false);
  return plan_loaded(load_spec({(folder / kSpecFile).string(), {}}, false), true);
}

// Errors that magnify each other by chance in a trainer may not do so in one draw: of a post-norm model of width 8 one
// in six showed no more than an eighth of the trainer's.
constexpr int kDraws = 3;

/// Says that this machine has less memory than the interpreter needs; empty if it has enough.
std::string lack_of_memory(const plan::Plan& reduced, bool with_rounding) {
  const auto [has, file] = HostLimits().free_memory();
  const double needs = float64::memory_of(reduced, with_rounding);
  constexpr double kGiB = 1 << 30;
  if (has <= 0 || needs <= static_cast<double>(has)) return {};
  return fmt::format(
      "the interpreter needs about {:.0f} GiB for this run, but this {} has {:.1f} available. Use a "
      "larger machine, or a smaller model.vocab_size or hidden_size",
      needs / kGiB, file.empty() ? "machine" : "process, by '" + file + "',", static_cast<double>(has) / kGiB);
}

/// Throws Failure(toolchain) if the trainer does not start, and Failure(usage) if it was not built for the reduced run.
void check_trainer(const fs::path& trainer, const plan::Plan& plan) {
  const auto [code, said, seconds] = build::run({"the trainer", {trainer.string(), "--version"}, ""});
  if (code != 0)
    throw Failure(Exit::toolchain, fmt::format("'{}' does not start (exit {}): {}", spec::printable(trainer.string()),
                                               code, spec::printable(said)));
  if (!said.starts_with(fmt::format("{} {} ", plan.spec.name, plan.fingerprint)))
    throw Failure(Exit::usage, fmt::format("'{}' was compiled for another plan. Run `llmc verify --emit-only` with the "
                                           "same arguments to write the project of the right one",
                                           spec::printable(trainer.string())));
}

/// Result of one trainer, as the command prints it.
struct Verified {
  nlohmann::ordered_json json;
  std::string text;
  bool good = true;
};

/// Verifies the trainer of `users` in `folder`. Nothing with --emit-only, which prints the folder of the sources.
std::optional<Verified> verify_in(const fs::path& folder, const VerifyOptions& options, const Planned& users) {
  const auto begin = std::chrono::steady_clock::now();
  const build::ProjectLock lock(folder, say);
  const std::string data = (folder / "data" / "train-*.bin").string();
  float64::Reduction reduction = float64::reduce(users.resolved.spec, users.plan, options.steps, data, false);
  Planned reduced = plan_reduced(users, reduction, folder);
  if (float64::arithmetic_of(reduced.plan, options.steps) > kLongRun && reduced.plan.choice.micro_batch > 1) {
    const double whole = float64::estimated_seconds(float64::arithmetic_of(reduced.plan, options.steps));
    say(fmt::format(
        "with whole micro-batches the interpreter would take about {:.0f} s, so they are reduced to one sequence",
        whole));
    reduction = float64::reduce(users.resolved.spec, users.plan, options.steps, data, true);
    reduced = plan_reduced(users, reduction, folder);
  }
  for (const char* earlier : {"data", "run"}) disk::remove_tree(folder / earlier, Exit::usage);
  float64::write_tokens(reduced.plan, options.steps, folder / "data");
  const float64::Shared shared = float64::shared_kernels(users.plan, reduced.plan);
  BuildOptions build;
  build.out = (folder / "trainer").string();
  build.probes = emit::Probes::around_ops;
  build.jobs = options.jobs;
  build.bundle = options.emit_only;
  if (!options.emit_only)
    if (const std::string lack = lack_of_memory(reduced.plan, false); !lack.empty())
      throw Failure(Exit::does_not_fit, lack);
  if (options.emit_only) {
    const build::ProjectLock project = lock_output(reduced, build);
    fmt::print("{}\n", emit_to(reduced, build, build::find_home()).string());
    return std::nullopt;
  }
  const fs::path trainer = disk::absolute(
      options.trainer.empty() ? compile(reduced, build).trainer : fs::path(options.trainer), Exit::usage);
  check_trainer(trainer, reduced.plan);
  say(fmt::format("{} steps op by op, about {:.0f} s", options.steps,
                  std::max(1.0, float64::estimated_seconds(float64::arithmetic_of(reduced.plan, options.steps)))));
  std::vector<std::string> argv = {trainer.string(), "--run", (folder / "run").string(), "--resume", "none"};
  if (reduced.plan.spec.master == spec::Masters::fp32) argv.emplace_back("--no-final-checkpoint");
  const auto run = [&](const std::string& dump, std::optional<int> draw) {
    return float64::verify_trainer(reduced.plan, argv, folder / "log", options.steps, {dump}, draw, say);
  };
  float64::Verdict verdict = run(options.dump, std::nullopt);
  for (int draw = 0; draw < kDraws && verdict.in_doubt(); ++draw) {
    say(draw == 0 ? "every op alone is within its bound, but not the whole run: runs once more, to measure how much of "
                    "the errors of rounding the model magnifies"
                  : "the whole run is still beyond: runs once more, with other errors of rounding");
    if (const std::string lack = lack_of_memory(reduced.plan, true); !lack.empty()) {
      say("not measured: " + lack);
      break;
    }
    disk::remove_tree(folder / "run", Exit::usage);
    verdict = run("", draw);
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const float64::Report report{reduced.plan, reduction.said, shared, verdict, seconds};
  return Verified{float64::as_json(report), float64::as_text(report), verdict.good()};
}

/// "phases 1, 3": those that a trainer of a run with phases has.
std::string phases_of(const spec::Phase& phase) {
  std::string text;
  for (std::size_t i = 0; i < phase.trainers.size(); ++i)
    if (phase.trainers[i] == phase.number) text += fmt::format("{}{}", text.empty() ? "" : ", ", i + 1);
  return (text.find(',') == std::string::npos ? "phase " : "phases ") + text;
}

/// Verifies each trainer of the spec.
int verify_spec(const VerifyOptions& options) {
  SelectedPhases phases = load_selected(options.spec);
  std::vector<Planned> trainers = trainers_of(plan_phases(std::move(phases.all), true), phases.selected);
  if (!options.trainer.empty() || options.emit_only) trainers = {only_trainer(std::move(trainers), options.spec.file)};
  const spec::Spec& first = trainers.front().plan.spec;
  refuse_planned_only(first);
  if (options.trainer.empty() && !options.emit_only) check_gpu(first);
  const fs::path folder =
      disk::absolute(options.out.empty() ? fs::path("build/verify") / first.name : fs::path(options.out), Exit::usage);
  auto list = nlohmann::ordered_json::array();
  bool good = true;
  for (const Planned& users : trainers) {
    const spec::Phase& phase = users.plan.spec.phase;
    VerifyOptions own = options;
    const std::string part = fmt::format("phase-{}", phase.number);
    if (phase.count > 1 && !own.dump.empty()) own.dump = (fs::path(own.dump) / part).string();
    if (phase.count > 1) say(fmt::format("trainer of {}", phases_of(phase)));
    const auto verified = verify_in(phase.count > 1 ? folder / part : folder, own, users);
    if (!verified) return 0;
    good &= verified->good;
    if (options.json)
      list.push_back(phase.count > 1
                         ? nlohmann::ordered_json{{"phases", phases_of(phase)}, {"verified", verified->json}}
                         : verified->json);
    else
      fmt::print("{}{}", phase.count > 1 ? phases_of(phase) + "\n" : "", verified->text);
  }
  if (options.json) fmt::print("{}\n", (trainers.size() > 1 ? list : list.front()).dump(2));
  return static_cast<int>(good ? Exit::done : Exit::numerics);
}

}  // namespace

void add_verify_command(CLI::App& app, Result& result) {
  auto options = std::make_shared<VerifyOptions>();
  CLI::App* command = app.add_subcommand("verify", "compare the run's kernels with float64, op by op, on this machine");
  command->add_option("spec", options->spec.file, "the run's YAML file")->required();
  command->add_option("overrides", options->spec.overrides, "key.path=value");
  command->add_option("-o,--out", options->out, "folder of the reduced run (default build/verify/<name>)");
  command->add_option("--steps", options->steps, "training steps")->check(CLI::Range(1, 1000))->capture_default_str();
  CLI::Option* const jobs = add_jobs(command, options->jobs);
  auto* emit_only = command->add_flag(
      "--emit-only", options->emit_only,
      "write the reduced run's trainer with the runtime's sources, to build on another machine, and exit");
  command
      ->add_option("--trainer", options->trainer,
                   "use this trainer, built from those sources, instead of building one here")
      ->type_name("FILE")
      ->check(CLI::ExistingFile)
      ->excludes(emit_only)
      ->excludes(jobs);
  command
      ->add_option("--dump", options->dump,
                   "write weights, tokens, gradients and updated weights of the run in float64 to DIR, as safetensors")
      ->type_name("DIR");
  command->add_flag("--json", options->json, "as JSON on standard output");
  command->footer(
      "Exit code 7: an op or a class of tensors does not match.\nExample: llmc verify specs/quickstart.yaml");
  command->callback([options, &result] { result.exit_code = verify_spec(*options); });
}

}  // namespace llmc::cli
