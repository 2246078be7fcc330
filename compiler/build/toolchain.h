// Finds the compilers and libraries of this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc::build {

/// Folders that trainers are built from.
struct Home {
  std::filesystem::path source;  // holds templates/ and runtime/
  std::filesystem::path build;   // holds the runtime's libraries
};

/// Returns the prefix or the build folder of this program, or the values of the environment variables LLMC_HOME
/// (source) and LLMC_BUILD.
Home find_home();

struct CpuToolchain {
  std::string compiler;  // g++
  std::string version;   // first line of --version
  std::string linker;    // argument of -fuse-ld: gold if installed (a third of the link time of g++'s default); empty:
                         // the default
};

struct CudaToolchain {
  std::string nvcc, version;
  std::filesystem::path root;  // of the toolkit
  bool runtime_built = false;  // the runtime's cuda libraries are there
};

/// Finds the compiler. Throws Failure(toolchain) that names the packages to install.
CpuToolchain find_cpu_toolchain();
CudaToolchain find_cuda_toolchain(const Home& home);
/// Does the same, but returns an empty `nvcc` if there is none.
CudaToolchain look_for_cuda(const Home& home);

/// Returns the CPU's instruction set as g++ -march takes it; replaces `native` by this machine's.
std::string resolve_cpu_arch(const std::string& arch);

/// Throws Failure(toolchain) if the compiler is too old to compile for `arch`, or compiles nothing.
void check_arch(const CpuToolchain& tools, const std::string& arch);

/// Throws Failure(toolchain) for precision.matmul: bf16x3 if `native` in target.arch resolves to a machine without AMX.
/// The spec's own constraints refuse other names.
void check_matmul(const spec::Spec& spec);

/// Refuses a spec that the CPU cannot train (bf16 without any support). Returns a warning if it would be slow.
std::string check_cpu_target(const spec::Spec& spec);

}  // namespace llmc::build
