// Files of a project, and which of them writing it touches.
#include "compiler/emit/project.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "../folder.h"
#include "compiler/emit/kernel_sources.h"
#include "error.h"
#include "small_spec.h"

namespace llmc::emit {
namespace {

namespace fs = std::filesystem;

const SourceTree kTree = {fs::path(SOURCE_FOLDER) / "templates", fs::path(SOURCE_FOLDER) / "runtime"};

class Project : public ::testing::Test {
 protected:
  static std::string read(const fs::path& file) {
    std::ifstream in(file, std::ios::binary);
    std::ostringstream text;
    text << in.rdbuf();
    return text.str();
  }

  const test::Folder files_;
  const fs::path folder_ = files_.path;
};

Files emitted(const std::vector<std::string>& overrides, Style style) {
  const spec::Resolved resolved = small_spec(overrides);
  const plan::Plan plan = plan::make_plan(resolved.spec);
  return emit_project(plan, {"plan", "{}", "name: small\n", "{}"}, kTree, style);
}

TEST_F(Project, OneFileAKernelAndTheRest) {
  const spec::Resolved resolved = small_spec();
  const plan::Plan plan = plan::make_plan(resolved.spec);
  const Files files = emitted({}, Style::include);
  std::set<std::string> expected = {"kernels.h", "step.h",    "step.cpp", "step_pieces.h", "program.cpp",   "plan.json",
                                    "plan.txt",  "spec.yaml", "texts.S",  "config.json",   "CMakeLists.txt"};
  for (const plan::Kernel& k : plan.kernels) expected.insert("kernels/" + k.name + ".cpp");
  std::set<std::string> names;
  for (const auto& [name, text] : files) {
    names.insert(name);
    EXPECT_FALSE(text.empty()) << name;
    EXPECT_EQ(text.find(SOURCE_FOLDER), std::string::npos) << name << " holds a path of this machine";
  }
  EXPECT_EQ(names, expected);
}

TEST_F(Project, AChosenShardingIsNamed) {
  for (const std::string& world : {std::string("1"), std::string("2")}) {
    const std::string program =
        emitted({"parallel.shard=auto", "parallel.world_size=" + world}, Style::include).at("program.cpp");
    EXPECT_NE(program.find(".shard = Shard::"), std::string::npos);
    EXPECT_EQ(program.find("Shard::auto"), std::string::npos);
  }
}

TEST_F(Project, BothStylesDifferInKernelsOnly) {
  const Files one = emitted({}, Style::specialised), other = emitted({}, Style::include);
  for (const auto& [name, text] : one) {
    EXPECT_EQ(text != other.at(name), name.starts_with("kernels/")) << name;
  }
}

TEST_F(Project, SpecialisedKernelsHaveNoParamsLeft) {
  const spec::Resolved resolved = small_spec();
  const plan::Plan plan = plan::make_plan(resolved.spec);
  const Files files = emitted({}, Style::specialised);
  for (const plan::Kernel& kernel : plan.kernels) {
    const std::string& text = files.at("kernels/" + kernel.name + ".cpp");
    EXPECT_EQ(text.find("params.h"), std::string::npos) << kernel.name;
    for (const plan::KernelParam& p : kernel.params)
      EXPECT_TRUE(p.type == "using" || params_read(text, {{p.type, p.name, p.value}}).empty())
          << kernel.name << ": " << p.name;
    EXPECT_NE(text.find("LLMC_KERNEL " + kernel.name + "("), std::string::npos) << kernel.name;
    EXPECT_EQ(text.find("// " + kernel.name + ": from template " + kernel.template_name), 0u) << kernel.name;
  }
}

TEST_F(Project, ProductsInBf16x3AreFp32ProductsInTiles) {
  const std::vector<std::string> words = {
      "precision.compute=fp32", "target.arch=sapphirerapids", "model.hidden_size=64", "model.num_attention_heads=2",
      "model.head_dim=32",      "batch.sequence_length=32",   "batch.tokens=64",      "memory.loss_chunk=auto"};
  std::vector<std::string> split = words;
  split.push_back("precision.matmul=bf16x3");
  const Files fp32 = emitted(words, Style::include), bf16x3 = emitted(split, Style::include);
  EXPECT_EQ(fp32.at("step.h").find("tiles"), std::string::npos);
  const std::string& shapes = bf16x3.at("step.h");
  std::string o = shapes.substr(shapes.find("GemmShape kOForward"));
  o.erase(o.find(';'));
  EXPECT_NE(o.find(".tiles = true"), std::string::npos) << o;
  EXPECT_EQ(o.find(".operand"), std::string::npos) << "fp32: " << o;
  EXPECT_NE(bf16x3.at("step.cpp").find("fp32 + bias + residual, bf16x3 in tiles"), std::string::npos);
  for (const auto& [name, text] : fp32) {
    if (name.starts_with("kernels")) {
      const std::string& other = bf16x3.at(name);  // its first line contains the fingerprint
      EXPECT_EQ(text.substr(text.find('\n')), other.substr(other.find('\n'))) << name;
    }
  }
}

TEST_F(Project, UnchangedFilesKeepTheirTime) {
  Files files = {{"a.txt", "a\n"}, {"sub/b.txt", "b\n"}};
  write_project(files, folder_ / "out", kTree, false);
  const fs::file_time_type old = fs::last_write_time(folder_ / "out/a.txt") - std::chrono::hours(1);
  fs::last_write_time(folder_ / "out/a.txt", old);
  files["sub/b.txt"] = "changed\n";
  write_project(files, folder_ / "out", kTree, false);
  EXPECT_EQ(fs::last_write_time(folder_ / "out/a.txt"), old);
  EXPECT_EQ(read(folder_ / "out/sub/b.txt"), "changed\n");
}

TEST_F(Project, OnlyItsOwnFilesAreRemoved) {
  write_project({{"a.txt", "a\n"}, {"b.txt", "b\n"}}, folder_ / "out", kTree, false);
  std::ofstream(folder_ / "out/mine.txt") << "mine\n";
  std::ofstream(folder_ / "outside.txt") << "outside\n";
  // An edited list must not reach outside the folder.
  std::ofstream(folder_ / "out/.llmc-files", std::ios::app) << "../outside.txt\n"
                                                            << (folder_ / "outside.txt").string() << "\n";
  write_project({{"a.txt", "a\n"}}, folder_ / "out", kTree, false);
  EXPECT_TRUE(fs::exists(folder_ / "out/a.txt"));
  EXPECT_FALSE(fs::exists(folder_ / "out/b.txt"));
  EXPECT_TRUE(fs::exists(folder_ / "out/mine.txt"));
  EXPECT_TRUE(fs::exists(folder_ / "outside.txt"));
}

TEST_F(Project, NothingIsWrittenThroughALink) {
  const Files files = {{"a.txt", "a\n"}, {"kernels/b.cpp", "b\n"}};
  write_project(files, folder_ / "out", kTree, false);
  fs::rename(folder_ / "out/kernels", folder_ / "elsewhere");
  std::ofstream(folder_ / "elsewhere/b.cpp") << "mine\n";
  std::ofstream(folder_ / "elsewhere/c.new") << "mine\n";
  fs::create_directory_symlink(folder_ / "elsewhere", folder_ / "out/kernels");
  EXPECT_THROW(write_project(files, folder_ / "out", kTree, false), Failure);
  EXPECT_THROW(write_project({{"a.txt", "a\n"}}, folder_ / "out", kTree, false), Failure) << "nor is one removed";
  EXPECT_EQ(read(folder_ / "elsewhere/b.cpp"), "mine\n");
  EXPECT_EQ(read(folder_ / "elsewhere/c.new"), "mine\n");
  fs::remove(folder_ / "out/kernels");
  fs::create_symlink(folder_ / "elsewhere/d.cpp", folder_ / "out/a.txt.new");  // dangling
  write_project({{"a.txt", "changed\n"}, {"kernels/b.cpp", "b\n"}}, folder_ / "out", kTree, false);
  EXPECT_FALSE(fs::exists(folder_ / "elsewhere/d.cpp"));
  EXPECT_EQ(read(folder_ / "out/a.txt"), "changed\n");
}

TEST_F(Project, AForeignFolderIsRefused) {
  fs::create_directories(folder_ / "theirs");
  std::ofstream(folder_ / "theirs/thesis.tex") << "x";
  try {
    write_project({{"a.txt", "a\n"}}, folder_ / "theirs", kTree, false);
    FAIL() << "no error";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), Exit::usage);
  }
  EXPECT_FALSE(fs::exists(folder_ / "theirs/a.txt"));
  EXPECT_THROW(write_project({{"a.txt", "a\n"}}, folder_ / "theirs/thesis.tex", kTree, false), Failure);
}

TEST_F(Project, ABundleHasTheRuntime) {
  write_project({{"a.txt", "a\n"}}, folder_ / "out", kTree, true);
  for (const char* file : {"runtime/CMakeLists.txt", "runtime/error.h", "runtime/device/group.h", "templates/params.h"})
    EXPECT_EQ(read(folder_ / "out" / file), read(fs::path(SOURCE_FOLDER) / file)) << file;
}

TEST_F(Project, DeclarationsSpellTypesOut) {
  SpecialiseInput input;
  input.template_name = "scale";
  input.template_file = "templates/scale.cu";
  input.template_text =
      "#include \"device/group.h\"\n#include \"params.h\"\nnamespace llmc {\n"
      "LLMC_KERNEL scale(const Act* __restrict__ x,\n                  float* y, int n) {\n}\n}\n";
  input.include_directory = kTree.runtime;
  input.entry = "scale_64";
  input.params = {{"using", "Act", "bf16"}, {"int", "kCols", "64"}};
  EXPECT_EQ(declaration(input), "LLMC_KERNEL scale_64(const bf16* __restrict x, float* y, int n);");
  input.template_name = "other";
  EXPECT_THROW(declaration(input), Failure);
}

}  // namespace
}  // namespace llmc::emit
