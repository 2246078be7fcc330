#include <fmt/format.h>

#include <memory>

#include "compiler/build/process.h"
#include "compiler/cli/build.h"
#include "compiler/cli/commands.h"
#include "compiler/emit/printer.h"
#include "plural.h"
#include "spec/schema.h"
#include "train/start.h"

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
      ->add_option("--style", options.style,
                   "specialised: numbers in place; include: template plus params, no specialiser")
      ->check(CLI::IsMember({"specialised", "include"}));
  command->add_option("--dump-ir", options.dump, "write the graph after each pass that changed it to this folder");
}

/// The overrides of run-time keys, which belong to the run and not to the trainer, as the trainer takes them; they are
/// removed from `arguments`, but for tokens that `micro_batch: auto` has to divide. All of them together are checked
/// first.
std::vector<std::string> take_run_time_words(SpecArguments& arguments) {
  const spec::Resolved all = load_spec(arguments);
  std::vector<std::string> words, compiled;
  for (const std::string& word : arguments.overrides) {
    const std::string path = word.substr(0, word.find('='));
    const spec::Key* key = spec::find_key(path);
    const bool decides = path == "batch.tokens" && all.spec.batch.micro_batch == 0;
    if (!key || key->stage != spec::Stage::run_time || decides) compiled.push_back(word);
    if (!key || key->stage != spec::Stage::run_time) continue;
    if (key->is_path && spec::present(key->get(all.spec)))  // relative to the spec here, to the current folder there
      words.push_back(path + "=" +
                      fs::absolute(all.directory / fs::path(std::get<std::string>(key->get(all.spec)))).string());
    else
      words.push_back(word);
  }
  arguments.overrides = compiled;
  return words;
}

/// What the trainer of this plan will refuse of its command line, before anything is compiled for it. False where the
/// words ask for its help or version, which is printed then.
bool check_trainer_words(const Planned& planned, std::vector<std::string> words) {
  const spec::Spec& spec = planned.plan.spec;
  ProgramInfo info{};
  info.name = spec.name.c_str();
  info.fingerprint = planned.plan.fingerprint.c_str();
  info.spec_yaml = planned.texts.spec_yaml.c_str();
  const std::string arch =
      spec.target.kind == spec::TargetKind::cuda ? emit::arch_list(spec) : build::resolve_cpu_arch(spec.target.arch[0]);
  info.arch = arch.c_str();
  words.insert(words.begin(), "trainer");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  const auto beside_the_spec = [&] { return fs::canonical(planned.resolved.directory); };
  const auto options = parse_options(static_cast<int>(argv.size()), argv.data(), info, beside_the_spec);
  if (options && !options->plan && !options->tune) check_start(*options, info, build::spec_file(planned.resolved));
  return options.has_value();
}

}  // namespace

void add_build_commands(CLI::App& app, Result& result) {
  auto options = std::make_shared<TrainerOptions>();

  CLI::App* emit_command = app.add_subcommand("emit", "write the trainer's sources");
  add_run_spec(emit_command, *options);
  add_emission(emit_command, *options);
  emit_command->add_flag("--bundle", options->build.bundle, "with the runtime's sources: builds where llmc is not");
  emit_command->footer(
      "Example: llmc emit specs/llama-1b.yaml -o llama-1b --bundle\n"
      "         cmake -S llama-1b -B llama-1b/build && cmake --build llama-1b/build");
  emit_command->callback([options] {
    const Planned planned = plan_spec(options->spec);
    const build::FolderLock lock = lock_output(planned, options->build);
    const fs::path folder = emit_to(planned, options->build, build::find_home());
    fmt::print("{}\n", folder.string());
  });

  CLI::App* compile_command = app.add_subcommand("compile", "write and build the trainer");
  add_run_spec(compile_command, *options);
  add_emission(compile_command, *options);
  add_jobs(compile_command, options->build);
  compile_command->footer("Example: llmc compile specs/quickstart.yaml && build/quickstart/trainer --help");
  compile_command->callback([options] {
    const Planned planned = plan_spec_here(options->spec);
    note_vocabulary(planned.resolved);
    const build::CompileResult built = compile(planned, options->build);
    fmt::print("{} ({} source{} compiled, {} unchanged{}, {:.1f} s)\n", built.trainer.string(), built.compiled,
               plural(built.compiled), built.reused, built.linked ? ", linked" : "", built.seconds);
  });

  CLI::App* run_command = app.add_subcommand("run", "compile if needed, then train");
  add_run_spec(run_command, *options);
  add_emission(run_command, *options);
  add_jobs(run_command, options->build);
  run_command->footer("Example: llmc run specs/quickstart.yaml -- --steps 100\nWhat follows -- is for the trainer.");
  run_command->callback([options, &result] {
    const std::vector<std::string> run_time = take_run_time_words(options->spec);
    const Planned planned = plan_spec_here(options->spec);
    std::vector<std::string> argv = run_time;
    argv.insert(argv.end(), result.trainer_arguments.begin(), result.trainer_arguments.end());
    if (!check_trainer_words(planned, argv)) return;
    const build::CompileResult built = compile(planned, options->build);
    argv.insert(argv.begin(), fs::absolute(built.trainer).string());
    build::become(argv);
  });
}

}  // namespace llmc::cli
