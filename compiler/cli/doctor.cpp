#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "compiler/build/process.h"
#include "compiler/cli/commands.h"
#include "compiler/cli/specs.h"
#include "compiler/tools/report/plan_report.h"
#include "device/cpu/arch.h"
#include "files/disk.h"
#include "files/temporary_folder.h"
#include "host/limits.h"
#include "host/program_path.h"
#include "math/onednn/support.h"
#include "text/printable.h"

namespace llmc::cli {

namespace fs = std::filesystem;

namespace {

struct Finding {
  std::string what, found;
  bool good;
  std::string advice;
};

/// Returns the compiler's message on this source; empty if it compiles.
std::string compile_problem(std::vector<std::string> argv, const std::string& name, const std::string& source) {
  try {
    const TemporaryFolder folder("doctor");
    emit::write_file(folder.path() / name, source);
    argv.insert(argv.end(), {(folder.path() / name).string(), "-o", (folder.path() / "out").string()});
    const build::Outcome outcome = build::run({"doctor", argv, folder.path().string()});
    if (outcome.exit_code == 0 && disk::exists(folder.path() / "out", Exit::toolchain)) return "";
    const std::string first = outcome.output.substr(0, outcome.output.find('\n'));
    return fmt::format("it cannot compile a test program (exit {}): {}", outcome.exit_code, first);
  } catch (const Failure& failure) {
    return failure.what();
  }
}

Finding cxx_compiler() {
  try {
    const build::CpuToolchain tools = build::find_cpu_toolchain();
    const std::string problem = compile_problem(
        {tools.compiler, "-std=c++20", "-fopenmp", "-c"}, "test.cpp",
        "#include <cmath>\n#include <omp.h>\nfloat f(float x) { return std::sqrt(x) * omp_get_max_threads(); }\n");
    return {"C++ compiler", tools.version, problem.empty(), problem};
  } catch (const Failure& failure) {
    return {"C++ compiler", "missing", false, failure.what()};
  }
}

/// Compiles a kernel with nvcc and ptxas.
Finding cuda_compiler(const build::CudaToolchain& tools) {
  if (tools.nvcc.empty())
    return {"CUDA compiler", "missing", false, "only target.kind: cuda needs it; llmc emit --bundle works without"};
  const std::string problem = compile_problem({tools.nvcc, "-std=c++20", "-arch=sm_90a", "-cubin"}, "test.cu",
                                              "__global__ void f(float* x) { x[threadIdx.x] *= 2; }\n");
  return {"CUDA compiler", tools.version, problem.empty(), problem};
}

constexpr double kAnswerSeconds = 20;  // nvidia-smi may hang on a GPU that is lost

/// Lists each GPU with its memory and driver by nvidia-smi.
std::vector<Finding> gpus() {
  const std::string smi = find_on_path("nvidia-smi");
  if (smi.empty()) return {{"GPU", "none seen (no nvidia-smi)", false, "only trainers of target.kind: cuda need one"}};
  const build::Outcome outcome =
      build::run({"nvidia-smi",
                  {smi, "--query-gpu=name,memory.total,driver_version,compute_cap", "--format=csv,noheader"},
                  "",
                  kAnswerSeconds});
  std::vector<Finding> found;
  std::istringstream lines(outcome.output);
  for (std::string line; std::getline(lines, line);)
    if (outcome.exit_code == 0 && !line.empty()) found.push_back({"GPU", line, true, ""});
  if (found.empty())
    found.push_back({"GPU", "none", false, "nvidia-smi says: " + outcome.output.substr(0, outcome.output.find('\n'))});
  return found;
}

/// Reports the machine's memory and processors, and the limits of control groups on this process.
Finding memory() {
  const double total = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  const auto [free, file] = HostLimits().free_memory();
  return {"memory",
          fmt::format("{}, {} free{}", report::human_bytes(total), report::human_bytes(static_cast<double>(free)),
                      file.empty() ? "" : fmt::format(" for this process, by {}", file)),
          free > 0, "/proc/meminfo does not show the available memory"};
}

Finding disk() {
  std::error_code error;
  const fs::space_info space = fs::space(".", error);
  if (error) return {"disk here", "unknown", false, error.message()};
  const auto free = static_cast<double>(space.available);
  return {"disk here", report::human_bytes(free) + " free", free > 1e9, "builds, data and checkpoints need room"};
}

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  const build::Home home = build::find_home();
  findings.push_back({"templates and runtime", home.source.string(), true, ""});
  const bool cpu_runtime = disk::exists(home.build / "runtime-cpu.link", Exit::toolchain);
  findings.push_back({"CPU runtime", cpu_runtime ? "built" : "missing", cpu_runtime, "run cmake --build on llmc"});
  findings.push_back(cxx_compiler());
  findings.push_back(
      {"this CPU", fmt::format("-march={}, {} threads", machine_arch(), HostLimits().processors()), true, ""});
  static constexpr const char* kSupport[] = {"widened to fp32: slower than fp32", "emulated: slower than fp32",
                                             "native"};
  const Bf16Support bf16 = bf16_support();
  findings.push_back(
      {"bf16 on this CPU", fmt::format("{} ({})", kSupport[static_cast<int>(bf16)], math_library_version()), true, ""});
  findings.push_back(memory());
  findings.push_back(disk());
  const build::CudaToolchain cuda = build::look_for_cuda(home);
  findings.push_back(cuda_compiler(cuda));
  findings.push_back(
      {"CUDA runtime", cuda.runtime_built ? "built" : "not built", cuda.runtime_built,
       "only target.kind: cuda needs it: toolkit, cuDNN, NCCL and cudnn-frontend when llmc is configured"});
  for (Finding& gpu : gpus()) findings.push_back(std::move(gpu));
  return findings;
}

}  // namespace

void add_doctor_command(CLI::App& app, Result& result) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "show what this machine can build and train");
  command->add_flag("--json", *json, "as JSON");
  command->footer("Example: llmc doctor");
  command->callback([json, &result] {
    const std::vector<Finding> findings = examine();
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Finding& f : findings) {
      list.push_back({{"what", f.what}, {"found", f.found}, {"good", f.good}, {"advice", f.good ? "" : f.advice}});
      if (!*json)
        fmt::print("{} {:<22} {}{}\n", f.good ? "ok" : "--", f.what, printable_text(f.found),
                   f.good || f.advice.empty() ? "" : "; " + printable_text(f.advice));
    }
    // Tools print text of any encoding.
    if (*json) fmt::print("{}\n", list.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
    // Tools of a single target may be missing on a working machine; the others must be there.
    for (const Finding& f : findings)
      if (!f.good && (f.what == "CPU runtime" || f.what == "C++ compiler"))
        result.exit_code = static_cast<int>(Exit::toolchain);
  });
}

}  // namespace llmc::cli
