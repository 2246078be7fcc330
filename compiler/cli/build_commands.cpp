#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <thread>

#include "compiler/build/compile.h"
#include "compiler/build/process.h"
#include "compiler/cli/commands.h"
#include "compiler/cli/options.h"
#include "compiler/passes/pipeline.h"
#include "error.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

struct BuildOptions {
  SpecArguments spec;
  std::string out, style = "specialised", dump;
  bool bundle = false, quiet = false;
  int jobs = 0;
  std::vector<std::string> trainer_arguments;
};

void dump_ir(const plan::Plan& plan, const fs::path& folder) {
  std::vector<passes::Dump> dumps;
  passes::lower(plan.spec, plan.spec.batch.micro_batch, plan.spec.memory.loss_chunk, &dumps);
  emit::Files files;
  for (const passes::Dump& dump : dumps) files[dump.file] = dump.text;
  emit::write_project(files, folder, {}, false);
}

emit::Style style_of(const std::string& name) {
  return name == "include" ? emit::Style::include : emit::Style::specialised;
}

/// Emits into the folder; the folder.
fs::path emit_to(const Planned& planned, const BuildOptions& options, const build::Home& home) {
  const fs::path folder = output_folder(options.out, planned.plan.spec.name);
  if (!options.dump.empty()) dump_ir(planned.plan, options.dump);
  const emit::Files files = emit::emit_project(planned.plan, planned.texts, source_tree(home), style_of(options.style));
  emit::write_project(files, folder, source_tree(home), options.bundle);
  return folder;
}

/// Emits and builds; prints what happened.
build::CompileResult compile(const Planned& planned, const BuildOptions& options) {
  const build::Home home = build::find_home();
  const bool cuda = planned.plan.spec.target.kind == spec::TargetKind::cuda;
  if (!cuda)
    if (const std::string warning = build::check_cpu_target(planned.plan.spec); !warning.empty())
      fmt::print(stderr, "warning: {}\n", warning);
  const fs::path folder = emit_to(planned, options, home);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const auto progress = [&](const std::string& line) {
    if (!options.quiet) fmt::print(stderr, "{}\n", line);
  };
  build::CompileResult result = build::compile_project(planned.plan, folder, home, options.jobs ? options.jobs : std::max(1, cores), progress);
  build::note_spec_directory(folder, planned.resolved.directory);
  return result;
}

void add_spec(CLI::App* command, BuildOptions& options) {
  command->add_option("spec", options.spec.file, "the run's YAML file")->required();
  command->add_option("overrides", options.spec.overrides, "key.path=value");
}

void add_emission(CLI::App* command, BuildOptions& options) {
  command->add_option("-o,--out", options.out, "folder of the project (default build/<name>)");
  command->add_option("--style", options.style, "specialised: numbers in place; include: template plus params, no specialiser")
      ->check(CLI::IsMember({"specialised", "include"}));
  command->add_option("--dump-ir", options.dump, "write the graph after each pass that changed it to this folder");
}

}  // namespace

void add_build_commands(CLI::App& app, Result&) {
  auto options = std::make_shared<BuildOptions>();

  CLI::App* emit_command = app.add_subcommand("emit", "write the trainer's sources");
  add_spec(emit_command, *options);
  add_emission(emit_command, *options);
  emit_command->add_flag("--bundle", options->bundle, "with the runtime's sources: builds where llmc is not");
  emit_command->footer("Example: llmc emit specs/llama-1b.yaml -o llama-1b --bundle\n"
                       "         cmake -S llama-1b -B llama-1b/build && cmake --build llama-1b/build");
  emit_command->callback([options] {
    const Planned planned = plan_spec(options->spec);
    const fs::path folder = emit_to(planned, *options, build::find_home());
    fmt::print("{}\n", folder.string());
  });

  CLI::App* compile_command = app.add_subcommand("compile", "write and build the trainer");
  add_spec(compile_command, *options);
  add_emission(compile_command, *options);
  compile_command->add_option("-j,--jobs", options->jobs, "compilers at once (default: one a core)");
  compile_command->footer("Example: llmc compile specs/quickstart.yaml && build/quickstart/trainer --help");
  compile_command->callback([options] {
    const Planned planned = plan_spec(options->spec);
    const build::CompileResult built = compile(planned, *options);
    fmt::print("{} ({} sources compiled, {} unchanged{}, {:.1f} s)\n", built.trainer.string(), built.compiled, built.reused,
               built.linked ? ", linked" : "", built.seconds);
  });

  CLI::App* run_command = app.add_subcommand("run", "compile if needed, then train");
  add_spec(run_command, *options);
  add_emission(run_command, *options);
  run_command->add_option("-j,--jobs", options->jobs, "compilers at once (default: one a core)");
  run_command->add_option("--trainer", options->trainer_arguments, "an argument for the trainer; may be given again")
      ->allow_extra_args(false);
  run_command->footer("Example: llmc run specs/quickstart.yaml --trainer=--steps --trainer=100");
  run_command->callback([options] {
    const Planned planned = plan_spec(options->spec);
    const build::CompileResult built = compile(planned, *options);
    std::vector<std::string> argv = {fs::absolute(built.trainer).string()};
    argv.insert(argv.end(), options->trainer_arguments.begin(), options->trainer_arguments.end());
    build::become(argv);
  });
}

}  // namespace llmc::cli
