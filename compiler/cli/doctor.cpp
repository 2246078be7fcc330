#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "compiler/build/process.h"
#include "compiler/cli/commands.h"
#include "compiler/cli/options.h"
#include "device/cpu/arch.h"
#include "math/onednn/support.h"

namespace llmc::cli {

namespace {

struct Finding {
  std::string what, found;
  bool good;
  std::string advice;
};

std::vector<Finding> examine() {
  std::vector<Finding> findings;
  const build::Home home = build::find_home();
  findings.push_back({"templates and runtime", home.source.string(), true, ""});
  const bool cpu_runtime = std::filesystem::exists(home.build / "runtime-cpu.link");
  findings.push_back({"CPU runtime", cpu_runtime ? "built" : "missing", cpu_runtime, "run cmake --build on llmc"});
  try {
    findings.push_back({"C++ compiler", build::find_cpu_toolchain().version, true, ""});
  } catch (const Failure& failure) {
    findings.push_back({"C++ compiler", "missing", false, failure.what()});
  }
  findings.push_back({"this CPU", "-march=" + machine_arch(), true, ""});
  static constexpr const char* kSupport[] = {"none: precision.compute must be fp32", "emulated: slower than fp32", "native"};
  const Bf16Support bf16 = bf16_support();
  findings.push_back({"bf16 on this CPU", fmt::format("{} ({})", kSupport[static_cast<int>(bf16)], math_library_version()),
                      bf16 != Bf16Support::none, "use precision.compute: fp32"});
  const build::CudaToolchain cuda = build::look_for_cuda(home);
  findings.push_back({"CUDA compiler", cuda.nvcc.empty() ? "missing" : cuda.version, !cuda.nvcc.empty(),
                      "only target.kind: cuda needs it; llmc emit --bundle works without"});
  findings.push_back({"CUDA runtime", cuda.runtime_built ? "built" : "not built", cuda.runtime_built,
                      "only target.kind: cuda needs it: toolkit, cuDNN, NCCL and cudnn-frontend when llmc is configured"});
  return findings;
}

}  // namespace

void add_doctor_command(CLI::App& app, Result& result) {
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("doctor", "what this machine can build and train");
  command->add_flag("--json", *json, "as JSON");
  command->footer("Example: llmc doctor");
  command->callback([json, &result] {
    const std::vector<Finding> findings = examine();
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const Finding& f : findings) {
      list.push_back({{"what", f.what}, {"found", f.found}, {"good", f.good}, {"advice", f.good ? "" : f.advice}});
      if (!*json) fmt::print("{} {:<22} {}{}\n", f.good ? "ok" : "--", f.what, f.found, f.good || f.advice.empty() ? "" : "; " + f.advice);
    }
    if (*json) fmt::print("{}\n", list.dump(2));
    // What only one target needs is missing on many good machines; the rest must be there.
    for (const Finding& f : findings)
      if (!f.good && (f.what == "CPU runtime" || f.what == "C++ compiler")) result.exit_code = static_cast<int>(Exit::toolchain);
  });
}

}  // namespace llmc::cli
