#include "compiler/cli/build.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compiler/passes/pipeline.h"
#include "device/device.h"
#include "files/disk.h"
#include "host/limits.h"
#include "program/compiled_spec.h"
#include "spec/targets.h"
#include "text/message.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

void dump_ir(const plan::Plan& plan, const fs::path& folder) {
  emit::Files files;
  for (const passes::GraphDump& dump : passes::dumps(plan.spec, plan.graph.kinds, plan.choice))
    files[dump.file] = dump.text;
  files["schedule.txt"] = fmt::format("{}\n", fmt::join(plan::text_lines(plan.schedule, plan.graph), "\n"));
  emit::write_project(files, folder, {}, false);
}

}  // namespace

void refuse_planned_only(const spec::Spec& spec) {
  if (spec::is_planned_only(spec))
    throw Failure(
        Exit::spec,
        "precision.matmul: mxfp8 is planned for arch " + spec.target.arch.front() +
            ", but not compiled: no device has yet run llmc's products with a scale for each 32 elements. "
            "Write precision.matmul: fp8_tensor, or target.kind: cpu, which computes the same numbers in bf16");
}

CLI::Option* add_jobs(CLI::App* command, int& jobs) {
  return command
      ->add_option("-j,--jobs", jobs,
                   "number of compilers that run at once (default: one per core that this process may use)")
      ->type_name("N")
      ->check(CLI::Range(1, kMostThreads));
}

build::ProjectLock lock_output(const Planned& planned, const BuildOptions& options) {
  refuse_planned_only(planned.plan.spec);
  return build::ProjectLock(output_folder(options.out, planned.plan.spec.name),
                            [](const std::string& line) { to_stderr("{}\n", line); });
}

fs::path emit_to(const Planned& planned, const BuildOptions& options, const build::Home& home) {
  const fs::path folder = output_folder(options.out, planned.plan.spec.name);
  if (!options.dump.empty()) {
    if (disk::weakly_canonical(options.dump, Exit::usage) == disk::weakly_canonical(folder, Exit::usage))
      throw Failure(Exit::usage, fmt::format("--dump-ir '{}' is the project's own folder. Give it another one",
                                             spec::printable(options.dump)));
    dump_ir(planned.plan, options.dump);
  }
  const emit::Style style = options.style == "include" ? emit::Style::include : emit::Style::specialised;
  const emit::Files files = emit::emit_project(planned.plan, planned.texts, source_tree(home), style, options.probes);
  emit::write_project(files, folder, source_tree(home), options.bundle);
  return folder;
}

namespace {

/// Prints a note if the folder holds the trainer of another spec, which this one replaces.
void note_other_spec(const fs::path& folder, const spec::Resolved& resolved) {
  const fs::path before = noted_spec(folder), now = build::spec_file(resolved);
  std::error_code missing;
  if (before.empty() || !fs::exists(before, missing) || fs::equivalent(before, now, missing)) return;
  to_stderr(
      "note: the trainer of '{}' replaces that of '{}' in {}. To keep both, write another `name` in one of the specs, "
      "or give -o DIR\n",
      now.string(), before.string(), folder.string());
}

}  // namespace

void check_gpu(const spec::Spec& spec) {
  refuse_planned_only(spec);
  if (spec.target.kind != spec::TargetKind::cuda) return;
  std::error_code missing;
  if (fs::exists("/proc/driver/nvidia", missing)) return;
  if (void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL)) {
    dlclose(driver);
    return;
  }
  throw Failure(Exit::toolchain,
                "target.kind is cuda, but this machine has no NVIDIA driver (no /proc/driver/nvidia, no libcuda.so.1), "
                "so the trainer cannot run here. Use `llmc compile` to build it for another machine, or "
                "target.kind=cpu to train on the processor");
}

build::CompileResult compile(const Planned& planned, const BuildOptions& options) {
  refuse_pipe(planned.resolved.files.front().path);
  const build::Home home = build::find_home();
  const bool cuda = planned.plan.spec.target.kind == spec::TargetKind::cuda;
  if (!cuda)
    if (const std::string warning = build::check_cpu_target(planned.plan.spec); !warning.empty())
      to_stderr("warning: {}\n", printable_text(warning));
  const build::ProjectLock lock = lock_output(planned, options);
  const build::SpecNote note =
      build::spec_note(output_folder(options.out, planned.plan.spec.name), planned.resolved);  // may refuse
  const fs::path folder = emit_to(planned, options, home);
  note_other_spec(disk::canonical(folder, Exit::usage), planned.resolved);
  const auto progress = [](const std::string& line) { to_stderr("{}\n", line); };
  build::CompileResult result = build::compile_project(
      planned.plan, folder, home, options.jobs ? options.jobs : HostLimits().processors(), progress);
  build::write_note(folder, note);
  return result;
}

}  // namespace llmc::cli
