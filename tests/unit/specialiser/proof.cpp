#include "proof.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "compiler/emit/specialiser/cuda_stub.h"
#include "error.h"
#include "files/durable_file.h"
#include "files/temporary_folder.h"

extern char** environ;

namespace llmc::emit {
namespace {

namespace fs = std::filesystem;

std::string read(const fs::path& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

void write(const fs::path& file, const std::string& text) {
  make_directories(file.parent_path(), {Exit::toolchain, "TMPDIR"});
  std::ofstream stream(file, std::ios::binary);
  if (!(stream << text).flush()) throw Failure(Exit::toolchain, "cannot write " + file.string());
}

/// Runs a program by argv with its standard error in `log`. Throws Failure(toolchain) with that text if the exit code
/// is not 0.
void run_program(const std::vector<std::string>& argv, const fs::path& log) {
  std::vector<char*> pointers;
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int error = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) throw Failure(Exit::toolchain, "cannot start " + argv[0] + "; install it or put it on the PATH");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw Failure(Exit::toolchain, argv[0] + " failed:\n" + read(log));
}

std::vector<std::string> command(const SpecialiseInput& input, const std::string& arch, const ProofTools& tools,
                                 const fs::path& stub) {
  if (input.target == spec::TargetKind::cpu) {
    return {tools.cxx,
            "-x",
            "c++",
            "-std=c++20",
            "-O3",
            "-fopenmp",
            "-march=" + arch,
            "-mprefer-vector-width=512",
            "-fno-math-errno",
            "-ffp-contract=off",
            "-S"};
  }
  if (!tools.nvcc.empty()) return {tools.nvcc, "-std=c++20", "-O3", "-fmad=false", "-arch=" + arch, "-ptx"};
  return {tools.clang,   "-x",         "cuda", "--cuda-device-only", "--cuda-gpu-arch=" + arch, "-nocudainc",
          "-nocudalib",  "-std=c++20", "-O2",  "-fno-builtin",       "-ffp-contract=off",       "-include",
          stub.string(), "-S"};
}

/// Renumbers compiler-generated names by order of appearance: g++'s local labels count declarations, and lambdas are
/// counted within the kernel. Both counts include dropped and pruned code.
class LocalNames {
 public:
  std::string renamed(const std::string& line) {
    std::string result;
    for (std::size_t at = 0; at < line.size();) {
      std::size_t end = at;
      while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) || line[end] == '_' ||
                                   line[end] == '.' || line[end] == '$')) {
        ++end;
      }
      const std::string name = line.substr(at, std::max<std::size_t>(end - at, 1));
      // Itanium mangling: a closure type inside a function is Z...EUl...E.
      const bool lambda = name.starts_with("_Z") && name.find("EUl") != std::string::npos;
      if (lambda || name.starts_with(".L")) {
        result += lambda ? "lambda" : ".L";
        result += std::to_string(numbers_.try_emplace(name, numbers_.size()).first->second);
      } else {
        result += name;
      }
      at += name.size();
    }
    return result;
  }

 private:
  std::map<std::string, std::size_t> numbers_;
};

/// Returns the lines of machine code, without directives that name files or producers.
std::vector<std::string> code_lines(const std::string& assembly) {
  std::vector<std::string> lines;
  LocalNames names;
  std::istringstream stream(assembly);
  for (std::string line; std::getline(stream, line);) {
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || line.compare(first, 2, "//") == 0) continue;
    if (line.compare(first, 5, ".file") == 0 || line.compare(first, 6, ".ident") == 0) continue;
    if (line.compare(first, 4, ".loc") == 0 && line.compare(first, 6, ".local") != 0) continue;
    lines.push_back(names.renamed(line.substr(first)));
  }
  return lines;
}

}  // namespace

ProofTools find_proof_tools() {
  ProofTools tools;
  const char* path = std::getenv("PATH");
  std::istringstream folders(std::string(path ? path : "") + ":/usr/local/cuda/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (folder.empty() || access((folder + "/nvcc").c_str(), X_OK) != 0) continue;
    tools.nvcc = folder + "/nvcc";
    break;
  }
  return tools;
}

std::optional<std::string> first_difference(const SpecialiseInput& input, const std::string& specialised,
                                            const std::vector<std::string>& archs, const ProofTools& tools) {
  const TemporaryFolder work("proof");
  const fs::path ours = work.path() / "specialised" / "kernel.cu", theirs = work.path() / "template" / "kernel.cu";
  write(ours, specialised);
  write(theirs, input.template_text);
  write(theirs.parent_path() / "params.h",
        "#pragma once\n#include \"device/types.h\"\n" + macros_text(input.params) + params_text(input.params));
  write(work.path() / "cuda_stub.h", kCudaStub);

  for (const std::string& arch : archs) {
    const auto compile = [&](const fs::path& source) {
      std::vector<std::string> argv = command(input, arch, tools, work.path() / "cuda_stub.h");
      const fs::path root = input.include_directory / "..";
      argv.insert(argv.end(), {"-I", input.include_directory.string()});
      argv.insert(argv.end(), {"-I", root.string(), "-I", (root / "templates").string()});
      if (source == theirs && input.entry != input.template_name)
        argv.push_back("-D" + input.template_name + "=" + input.entry);
      const fs::path output = source.parent_path() / "kernel.s";
      argv.insert(argv.end(), {source.string(), "-o", output.string()});
      run_program(argv, work.path() / "log");
      return code_lines(read(output));
    };
    const std::vector<std::string> one = compile(ours), other = compile(theirs);
    for (std::size_t i = 0; i < std::max(one.size(), other.size()); ++i) {
      const std::string a = i < one.size() ? one[i] : "(end)", b = i < other.size() ? other[i] : "(end)";
      if (a != b) return arch + ": line " + std::to_string(i + 1) + ": " + a + " | " + b;
    }
    if (one.empty()) throw Failure(Exit::toolchain, arch + ": the compiler wrote nothing");
  }
  return std::nullopt;
}

}  // namespace llmc::emit
