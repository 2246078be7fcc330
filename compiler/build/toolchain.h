// Finds the compilers and libraries of this machine.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "spec/spec.h"

namespace llmc::build {

/// Where llmc was built, and what it builds trainers from.
struct Home {
  std::filesystem::path source;  // holds templates/ and runtime/
  std::filesystem::path build;   // holds the runtime's libraries
};

/// The prefix or the build folder that this program lies in, or what the environment variable LLMC_HOME (source) and
/// LLMC_BUILD say.
Home find_home();

struct CpuToolchain {
  std::string compiler;  // g++
  std::string version;   // first line of --version
  std::string linker;    // what -fuse-ld takes: gold where it is, in a third of the time of g++'s own; empty: that one
};

struct CudaToolchain {
  std::string nvcc, version;
  std::filesystem::path root;  // of the toolkit
  bool runtime_built = false;  // the runtime's cuda libraries are there
};

/// Throws Failure(toolchain) that names what to install.
CpuToolchain find_cpu_toolchain();
CudaToolchain find_cuda_toolchain(const Home& home);
/// As above, but an empty `nvcc` where there is none.
CudaToolchain look_for_cuda(const Home& home);

/// Name of the CPU's instruction set as g++ -march takes it: `native` becomes this machine's.
std::string resolve_cpu_arch(const std::string& arch);

/// Throws Failure(toolchain) where the compiler is too old for code for `arch`.
void check_arch(const CpuToolchain& tools, const std::string& arch);

/// Throws Failure(toolchain) for precision.matmul: bf16x3 where target.arch has no AMX: `native` that became this
/// machine's name, or stayed as it is. The spec's own relations refuse other names.
void check_matmul(const spec::Spec& spec);

/// Refuses a spec that the CPU cannot train (bf16 without any support), with a warning text where it would be slow.
std::string check_cpu_target(const spec::Spec& spec);

}  // namespace llmc::build
