// Finds compilers, and reports missing ones.
#include "compiler/build/toolchain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "../facts.h"
#include "../folder.h"
#include "compiler/emit/flags.h"
#include "device/cpu/arch.h"
#include "device/cpu/arch_names.h"
#include "error.h"
#include "spec/targets.h"

namespace llmc::build {
namespace {

/// Sets an environment variable until the end of the scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    setenv(name, value, 1);
  }
  ~Variable() {
    if (had_)
      setenv(name_, old_.c_str(), 1);
    else
      unsetenv(name_);
  }

 private:
  const char* name_;
  std::string old_;
  bool had_ = false;
};

template <class Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::toolchain);
    return failure.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

TEST(Toolchain, TheCpuCompilerIsThere) {
  const CpuToolchain tools = find_cpu_toolchain();
  EXPECT_NE(tools.version.find("g++"), std::string::npos);
}

TEST(Toolchain, WithoutOneItSaysWhatToInstall) {
  const Variable path("PATH", "/nonexistent");
  EXPECT_NE(refusal([] { find_cpu_toolchain(); }).find("apt-get install g++"), std::string::npos);
}

/// As ccache does without a compiler. It knows no arch, but that is not the reason.
TEST(Toolchain, ACompilerThatCompilesNothingIsSaidToBeBroken) {
  const test::Folder files;
  const std::filesystem::path compiler = files.path / "g++";
  std::ofstream(compiler) << "#!/bin/sh\necho 'could not find g++' >&2\nexit 1\n";
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  const Variable path("PATH", files.path.c_str());
  const std::string said = refusal([] { check_arch(find_cpu_toolchain(), "x86-64-v3"); });
  EXPECT_TRUE(test::has_facts(said, {compiler.string(), "exit 1", "could not find g++"}));
  EXPECT_EQ(said.find("target.arch"), std::string::npos) << said;
}

TEST(Toolchain, TrainersAreLinkedByGoldWhereItIs) {
  namespace fs = std::filesystem;
  const test::Folder files;
  const fs::path folder = files.path;
  fs::create_symlink(find_cpu_toolchain().compiler, folder / "g++");
  const Variable path("PATH", folder.c_str());
  EXPECT_EQ(find_cpu_toolchain().linker, "");
  fs::create_symlink(find_cpu_toolchain().compiler, folder / "ld.gold");
  EXPECT_EQ(find_cpu_toolchain().linker, "gold");
}

TEST(Toolchain, TheHomeCanBeNamed) {
  EXPECT_TRUE(std::filesystem::exists(find_home().source / "templates"));
  {
    const Variable source("LLMC_HOME", ""), build("LLMC_BUILD", "");
    EXPECT_TRUE(std::filesystem::exists(find_home().source / "templates")) << "an empty variable is not set";
    EXPECT_FALSE(find_home().build.empty());
  }
  const Variable home("LLMC_HOME", "/nonexistent");
  EXPECT_NE(refusal([] { find_home(); }).find("LLMC_HOME"), std::string::npos);
}

TEST(Toolchain, NativeBecomesANameThatTheCompilerTakes) {
  EXPECT_NE(resolve_cpu_arch("native"), "native");
  EXPECT_EQ(resolve_cpu_arch("x86-64-v3"), "x86-64-v3");
}

TEST(Toolchain, Bf16x3NeedsAnArchWithTiles) {
  spec::Spec spec;
  spec.compute = DType::f32;
  spec.target.arch = {"cooperlake"};
  EXPECT_NO_THROW(check_matmul(spec));
  spec.matmul = spec::Matmul::bf16x3;
  const auto refused = [&](const char* arch) {
    spec.target.arch = {arch};
    return refusal([&] { check_matmul(spec); });
  };
  EXPECT_TRUE(
      test::has_facts(refused("cooperlake"), {"precision.matmul: bf16x3", "AMX", "target.arch: native", "cooperlake",
                                              "target.arch: sapphirerapids", "precision.matmul: auto"}));
  EXPECT_NE(refused("native").find("native is not resolved here. Write target.arch: sapphirerapids"),
            std::string::npos);
  spec.target.arch = {"sapphirerapids"};
  EXPECT_NO_THROW(check_matmul(spec));
}

// Checks the names known to the installed g++ against its own macros for the instructions it may use.
TEST(Toolchain, NamesOfProcessorsHaveTheInstructionsThatTheCompilerUses) {
  int known = 0;
  const auto check = [&known](const CpuArch& arch) {
    const std::string command = fmt::format("g++ -march={} -dM -E -x c++ /dev/null 2>/dev/null", arch.name);
    std::string macros;
    FILE* pipe = ::popen(command.c_str(), "r");
    ASSERT_NE(pipe, nullptr);
    for (char part[4096]; const std::size_t read = std::fread(part, 1, sizeof part, pipe);) macros.append(part, read);
    if (::pclose(pipe) != 0) return;
    ++known;
    const auto has = [&macros](const char* name) {
      return macros.find(fmt::format("#define {} 1\n", name)) != std::string::npos;
    };
    EXPECT_EQ(has("__AVX512VNNI__"), (arch.extensions & kVnni) != 0) << arch.name;
    EXPECT_EQ(has("__AVX512VBMI2__"), (arch.extensions & kVbmi2) != 0) << arch.name;
    EXPECT_EQ(has("__AVX512BF16__"), (arch.extensions & kBf16) != 0) << arch.name;
    EXPECT_EQ(has("__AVX512FP16__"), (arch.extensions & kFp16) != 0) << arch.name;
    EXPECT_EQ(has("__AMX_BF16__"), (arch.extensions & kAmx) != 0) << arch.name;
    EXPECT_EQ(has("__AVX512BW__"), arch.level == 4) << arch.name;
    EXPECT_EQ(has("__AVX2__"), arch.level >= 3) << arch.name;
  };
  for (const CpuArch& arch : kProposedArchs) check(arch);
  for (const CpuArch& arch : kOtherArchs) check(arch);
  EXPECT_GE(known, static_cast<int>(kProposedArchs.size()));
}

TEST(Toolchain, AnArchThatTheCompilerLacksIsRefused) {
  const CpuToolchain tools = find_cpu_toolchain();
  EXPECT_NO_THROW(check_arch(tools, "x86-64-v3"));
  EXPECT_TRUE(test::has_facts(refusal([&] { check_arch(tools, "znver99"); }),
                              {"target.arch: znver99", "-march", "g++", "target.arch: "}));
}

TEST(Toolchain, OneGencodeForEachArchitecture) {
  EXPECT_EQ(emit::gencode({"80", "90a"}), (std::vector<std::string>{"-gencode", "arch=compute_80,code=sm_80",
                                                                    "-gencode", "arch=compute_90a,code=sm_90a"}));
}

}  // namespace
}  // namespace llmc::build
