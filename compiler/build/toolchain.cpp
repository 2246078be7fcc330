#include "compiler/build/toolchain.h"

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler/build/process.h"
#include "device/cpu/arch.h"
#include "error.h"
#include "files/disk.h"
#include "host/executable.h"
#include "host/program_path.h"
#include "math/onednn/support.h"

namespace llmc::build {

namespace fs = std::filesystem;

namespace {

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

/// Returns the line of `nvcc --version` that contains the release.
std::string release_line(const std::string& text) {
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);)
    if (line.find("release") != std::string::npos) return line;
  return first_line(text);
}

std::string find_nvcc() {
  if (const std::string found = find_on_path("nvcc"); !found.empty()) return disk::absolute(found, Exit::toolchain);
  std::vector<fs::path> roots;
  for (const char* variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char* value = std::getenv(variable)) roots.emplace_back(value);
  roots.emplace_back("/usr/local/cuda");
  std::error_code unknown;
  for (const fs::path& root : roots)
    if (fs::exists(root / "bin" / "nvcc", unknown)) return disk::absolute(root / "bin" / "nvcc", Exit::toolchain);
  return "";
}

/// Locates this program: in a prefix (bin, lib/llmc, share/llmc), or in a build folder, whose file llmc-source has the
/// relative path of the sources. Other programs of the build, such as its tests, use the build's folders.
Home home_of_program() {
  const fs::path folder = executable_folder();
  std::error_code unknown;
  if (const fs::path prefix = folder.parent_path(); fs::exists(prefix / "lib" / "llmc" / "runtime-cpu.link", unknown))
    return {prefix / "share" / "llmc", prefix / "lib" / "llmc"};
  std::ifstream way(folder / "llmc-source");
  if (std::string relative; std::getline(way, relative)) return {(folder / relative).lexically_normal(), folder};
  return {LLMC_SOURCE_DIRECTORY, LLMC_BUILD_DIRECTORY};
}

}  // namespace

Home find_home() {
  Home home = home_of_program();
  const auto given = [](const char* variable) {
    const char* const value = std::getenv(variable);
    return value && *value ? value : nullptr;  // an empty one is not set
  };
  if (const char* source = given("LLMC_HOME")) home.source = disk::absolute(source, Exit::toolchain);
  if (const char* build = given("LLMC_BUILD")) home.build = disk::absolute(build, Exit::toolchain);
  if (!disk::exists(home.source / "templates", Exit::toolchain))
    throw Failure(Exit::toolchain, "no templates in " + home.source.string() +
                                       ". Set LLMC_HOME to llmc's source folder and LLMC_BUILD to its build folder");
  return home;
}

CpuToolchain find_cpu_toolchain() {
  const std::string compiler = find_on_path("g++");
  if (compiler.empty())
    throw Failure(Exit::toolchain,
                  "no g++ on PATH, but trainers are built by g++ 12 or later. Install it with: apt-get install g++");
  return {disk::absolute(compiler, Exit::toolchain),
          first_line(run({"g++ --version", {compiler, "--version"}, ""}).output),
          find_on_path("ld.gold").empty() ? "" : "gold"};
}

CudaToolchain look_for_cuda(const Home& home) {
  CudaToolchain tools;
  tools.nvcc = find_nvcc();
  if (tools.nvcc.empty()) return tools;
  tools.version = release_line(run({"nvcc --version", {tools.nvcc, "--version"}, ""}).output);
  tools.root = fs::path(tools.nvcc).parent_path().parent_path();
  tools.runtime_built = disk::exists(home.build / "runtime-cuda.link", Exit::toolchain);
  return tools;
}

CudaToolchain find_cuda_toolchain(const Home& home) {
  const CudaToolchain tools = look_for_cuda(home);
  if (tools.nvcc.empty())
    throw Failure(Exit::toolchain,
                  "no nvcc on PATH, in CUDA_HOME or in /usr/local/cuda. Install the CUDA toolkit, or emit a bundle "
                  "here (llmc emit SPEC -o DIR --bundle) and build it where the toolkit is");
  if (!tools.runtime_built)
    throw Failure(Exit::toolchain,
                  "llmc was built without its CUDA runtime. Rerun cmake on llmc where the toolkit, cuDNN and "
                  "cudnn-frontend are found (its configure log shows what is missing)");
  return tools;
}

std::string resolve_cpu_arch(const std::string& arch) { return arch == "native" ? machine_arch() : arch; }

void check_arch(const CpuToolchain& tools, const std::string& arch) {
  if (run({"g++ -march", {tools.compiler, "-march=" + arch, "-E", "-x", "c++", "/dev/null"}, ""}).exit_code == 0)
    return;
  const Outcome without = run({"g++", {tools.compiler, "-E", "-x", "c++", "/dev/null"}, ""});
  if (without.exit_code != 0)
    throw Failure(Exit::toolchain, tools.compiler + " compiles nothing (exit " + std::to_string(without.exit_code) +
                                       "): " + first_line(without.output) +
                                       ". Repair it, or put another g++ first on PATH");
  const std::string here = machine_arch();
  throw Failure(Exit::toolchain, "target.arch: " + arch + " is not a -march value of " + tools.version +
                                     ". Install a newer g++, or write target.arch: " +
                                     (here == arch ? "x86-64-v3" : here + ", which is this machine"));
}

void check_matmul(const spec::Spec& spec) {
  if (spec.matmul != spec::Matmul::bf16x3) return;
  const std::string arch = spec.target.arch.empty() ? "native" : spec.target.arch.front();
  if (arch_has_tiles(arch)) return;
  throw Failure(
      Exit::toolchain,
      "precision.matmul: bf16x3 needs a processor with AMX, but target.arch: native is " +
          (arch == "native" ? "not resolved here" : arch + " on this machine, which has none") +
          ". Write target.arch: sapphirerapids to build for a processor that has it, or precision.matmul: auto");
}

std::string check_cpu_target(const spec::Spec& spec) {
  if (spec.compute != DType::bf16) return "";
  if (bf16_support() == Bf16Support::native) return "";
  return "this CPU has no bf16 instructions: products are computed in fp32, so training will be slower than "
         "precision.compute=fp32";
}

}  // namespace llmc::build
