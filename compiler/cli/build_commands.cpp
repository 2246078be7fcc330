#include <fmt/format.h>

#include <memory>

#include "compiler/build/process.h"
#include "compiler/cli/build.h"
#include "compiler/cli/commands.h"
#include "compiler/cli/run_words.h"
#include "compiler/cli/trainers.h"
#include "compiler/emit/printer.h"
#include "files/disk.h"
#include "host/executable.h"
#include "run/run_folder.h"
#include "spec/schema/schema.h"
#include "text/plural.h"
#include "text/shell.h"
#include "trainer/startup/phase.h"
#include "trainer/startup/resume_line.h"
#include "trainer/startup/values.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

struct TrainerOptions {
  SpecArguments spec;
  BuildOptions build;
};

void add_run_spec(CLI::App* command, TrainerOptions& options) {
  command->add_option("spec", options.spec.file, "the run's YAML file")->required();
  command->add_option("overrides", options.spec.overrides, "key.path=value");
}

void add_emission(CLI::App* command, TrainerOptions& all) {
  BuildOptions& options = all.build;
  command->add_option("-o,--out", options.out, "folder of the project (default build/<name>)");
  command
      ->add_option(
          "--style", options.style,
          "specialised: templates with their params replaced by numbers; include: templates and params as they are")
      ->check(CLI::IsMember({"specialised", "include"}));
  command->add_option("--dump-ir", options.dump, "write the graph after each pass that changed it to this folder");
}

/// Returns the command that resumes a run whose trainer was compiled with overrides. By then the folder may hold the
/// trainer of other overrides.
std::string resume_with_llmc(const TrainerOptions& options, const RunWords& words, const fs::path& trainer,
                             const std::vector<std::string>& trainer_arguments) {
  if (words.compiled.empty()) return {};
  std::vector<std::string> line = {(executable_folder() / "llmc").string(), "run",
                                   disk::absolute(options.spec.file, Exit::usage).lexically_normal().string(), "-o",
                                   disk::absolute(trainer, Exit::usage).parent_path().lexically_normal().string()};
  if (options.build.style != BuildOptions{}.style) line.push_back("--style=" + options.build.style);
  line.insert(line.end(), words.all.begin(), words.all.end());
  const std::vector<std::string> rest = words_to_go_on(trainer_arguments);
  if (!rest.empty()) line.push_back("--");
  line.insert(line.end(), rest.begin(), rest.end());
  return shell_line(line);
}

/// Throws Failure(usage) for the spec.yaml of a run or of a checkpoint: the new run would be a folder inside it.
void refuse_spec_of_a_run(const std::string& file) {
  const fs::path path = disk::absolute(file, Exit::usage).lexically_normal(), folder = path.parent_path();
  const std::string name = shell_word(folder.string());
  std::string going_on, source = "the file";
  if (path.filename() == "spec.yaml" && RunFolder::holds_run(folder))
    going_on =
        fmt::format("start its trainer with --run {} (if the trainer is gone, `llmc compile {} -o DIR` builds it)",
                    name, shell_word(path.string()));
  else if (path.filename() == "spec.yaml" && disk::exists(folder / "state.json", Exit::usage) && has_manifest(folder))
    going_on = fmt::format("start a trainer of its model with --resume {}", name),
    source = "the file spec.yaml of its run (this one has neither paths nor a name)";
  else
    return;
  throw Failure(
      Exit::usage,
      fmt::format("'{}' belongs to an existing run, and `llmc run` would start another run inside it. To resume that "
                  "run, {}. For a new run, copy {} to another folder and write another `name`",
                  file, going_on, source));
}

/// Each trainer's project is a folder in that of the run, named after its first phase.
BuildOptions of_phase(BuildOptions options, const Planned& planned) {
  const spec::Spec& spec = planned.plan.spec;
  const fs::path folder = output_folder(options.out, spec.name);
  if (disk::exists(folder / emit::kLockFile, Exit::usage))
    throw Failure(Exit::usage,
                  fmt::format("'{}' holds the trainer of a run without phases. Write another -o, or remove "
                              "the folder",
                              folder.string()));
  options.out = (folder / fmt::format("phase-{}", spec.phase.number)).string();
  return options;
}

}  // namespace

void add_build_commands(CLI::App& app, Result& result) {
  auto options = std::make_shared<TrainerOptions>();

  CLI::App* emit_command = app.add_subcommand("emit", "write the trainer's sources");
  add_run_spec(emit_command, *options);
  add_emission(emit_command, *options);
  emit_command->add_flag("--bundle", options->build.bundle, "include the runtime's sources, to build without llmc");
  emit_command->footer(
      "Example: llmc emit specs/llama-1b.yaml -o llama-1b --bundle\n"
      "         cmake -S llama-1b -B llama-1b/build && cmake --build llama-1b/build");
  emit_command->callback([options] {
    SelectedPhases phases = load_selected(options->spec);
    const Planned planned =
        only_trainer(trainers_of(plan_phases(std::move(phases.all), false), phases.selected), options->spec.file);
    const build::ProjectLock lock = lock_output(planned, options->build);
    const fs::path folder = emit_to(planned, options->build, build::find_home());
    fmt::print("{}\n", folder.string());
  });

  CLI::App* compile_command = app.add_subcommand("compile", "write and build the trainer");
  add_run_spec(compile_command, *options);
  add_emission(compile_command, *options);
  add_jobs(compile_command, options->build.jobs);
  compile_command->footer("Example: llmc compile specs/quickstart.yaml && build/quickstart/trainer --help");
  compile_command->callback([options] {
    SelectedPhases phases = load_selected(options->spec);
    const bool many = phases.all.front().spec.phase.count > 1;
    Said said;
    for (const Planned& planned : trainers_of(plan_phases(std::move(phases.all), true), phases.selected)) {
      note_vocabulary(planned.resolved, said);
      warn_of_export(planned.resolved.spec.model, said);
      const build::CompileResult built = compile(planned, many ? of_phase(options->build, planned) : options->build);
      fmt::print("{} ({} source{} compiled, {} unchanged{}, {:.1f} s)\n", built.trainer.string(), built.compiled,
                 plural(built.compiled), built.reused, built.linked ? ", linked" : "", built.seconds);
    }
  });

  CLI::App* run_command = app.add_subcommand("run", "compile if needed, then train");
  add_run_spec(run_command, *options);
  add_emission(run_command, *options);
  add_jobs(run_command, options->build.jobs);
  run_command->footer(
      "Example: llmc run specs/quickstart.yaml -- --steps 100\nArguments after -- are passed to the trainer.");
  run_command->callback([options, &result] {
    refuse_pipe(options->spec.file);
    refuse_spec_of_a_run(options->spec.file);
    SelectedPhases loaded = load_selected(options->spec);
    RunWords words = sort_words({options->spec.file, loaded.overrides}, loaded.all);
    // Keys of the run stay out of the trainer's defaults.
    if (!words.run_time.empty()) loaded.all = load_phases({options->spec.file, words.compiled}, false);
    if (loaded.selected) {  // the command that goes on compiles its trainer alone as well
      words.compiled.push_back(fmt::format("phase={}", loaded.selected));
      words.all.push_back(words.compiled.back());
    }
    const bool many = loaded.all.front().spec.phase.count > 1;
    const std::vector<Planned> phases = plan_phases(std::move(loaded.all), true);
    std::vector<std::string> argv = words.run_time;
    argv.insert(argv.end(), result.trainer_arguments.begin(), result.trainer_arguments.end());
    std::vector<std::string> command = {"llmc", "run", options->spec.file};
    command.insert(command.end(), words.all.begin(), words.all.end());
    if (!result.trainer_arguments.empty()) command.push_back("--");
    command.insert(command.end(), result.trainer_arguments.begin(), result.trainer_arguments.end());
    for (const Planned& phase : phases) {
      if (!check_trainer_words(phase, argv, command)) return;
      check_gpu(phase.plan.spec);
    }
    Said said;
    for (const Planned& phase : phases) warn_of_export(phase.resolved.spec.model, said);
    std::vector<fs::path> trainers;
    for (const Planned& trainer : trainers_of(phases, loaded.selected))
      trainers.push_back(compile(trainer, many ? of_phase(options->build, trainer) : options->build).trainer);
    argv.insert(argv.begin(), disk::absolute(trainers.front(), Exit::usage).string());
    if (many) setenv(kPhasesVariable, "1", 1);
    build::become(argv, resume_with_llmc(*options, words, many ? trainers.front().parent_path() : trainers.front(),
                                         result.trainer_arguments));
  });
}

}  // namespace llmc::cli
