#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/build/process.h"
#include "compiler/cli/build.h"
#include "compiler/cli/commands.h"
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

/// Throws Failure(does_not_fit) if this machine has less memory than the interpreter needs.
void check_memory(const plan::Plan& reduced) {
  const auto [has, file] = HostLimits().free_memory();
  const double needs = float64::memory_of(reduced);
  constexpr double kGiB = 1 << 30;
  if (has > 0 && needs > static_cast<double>(has))
    throw Failure(Exit::does_not_fit,
                  fmt::format("the interpreter needs about {:.0f} GiB for this run, but this {} has {:.1f} available. "
                              "Use a larger machine, or a smaller model.vocab_size",
                              needs / kGiB, file.empty() ? "machine" : "process, by '" + file + "',",
                              static_cast<double>(has) / kGiB));
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

int verify_spec(const VerifyOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const Planned users = plan_spec_here(options.spec);
  refuse_planned_only(users.plan.spec);
  if (options.trainer.empty() && !options.emit_only) check_gpu(users.plan.spec);
  const fs::path folder = disk::absolute(
      options.out.empty() ? fs::path("build/verify") / users.plan.spec.name : fs::path(options.out), Exit::usage);
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
  if (!options.emit_only) check_memory(reduced.plan);
  if (options.emit_only) {
    const build::ProjectLock project = lock_output(reduced, build);
    fmt::print("{}\n", emit_to(reduced, build, build::find_home()).string());
    return 0;
  }
  const fs::path trainer = disk::absolute(
      options.trainer.empty() ? compile(reduced, build).trainer : fs::path(options.trainer), Exit::usage);
  check_trainer(trainer, reduced.plan);
  say(fmt::format("{} steps op by op, about {:.0f} s", options.steps,
                  std::max(1.0, float64::estimated_seconds(float64::arithmetic_of(reduced.plan, options.steps)))));
  std::vector<std::string> argv = {trainer.string(), "--run", (folder / "run").string(), "--resume", "none"};
  if (reduced.plan.spec.master == spec::Masters::fp32) argv.emplace_back("--no-final-checkpoint");
  const float64::Verdict verdict = float64::verify_trainer(reduced.plan, argv, folder / "log", options.steps,
                                                           {options.dump}, [](const std::string& line) { say(line); });
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  const float64::Report report{reduced.plan, reduction.said, shared, verdict, seconds};
  fmt::print("{}", options.json ? float64::as_json(report).dump(2) + "\n" : float64::as_text(report));
  return static_cast<int>(verdict.good(reduced.plan.spec) ? Exit::done : Exit::numerics);
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
