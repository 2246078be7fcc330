#include "compiler/emit/project.h"

#include <fmt/format.h>

#include <fstream>
#include <set>
#include <sstream>

#include "compiler/emit/cmake_printer.h"
#include "compiler/emit/kernel_sources.h"
#include "compiler/emit/printer.h"
#include "compiler/emit/step_printer.h"
#include "error.h"

namespace llmc::emit {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifest = ".llmc-files";

std::string kernels_header(const plan::Plan& plan, const std::vector<KernelSource>& sources) {
  Source out;
  out.line("// The kernels of run $name$ ($print$).", {{"name", plan.spec.name}, {"print", plan.fingerprint}});
  out.raw("#pragma once\n\n#include \"device/group.h\"\n\nnamespace llmc {\n\n");
  for (const KernelSource& source : sources) out.line("$declaration$", {{"declaration", source.declaration}});
  out.raw("\n}  // namespace llmc\n");
  return out.take();
}

std::set<std::string> earlier_files(const fs::path& folder) {
  std::set<std::string> names;
  std::ifstream list(folder / kManifest);
  for (std::string line; std::getline(list, line);) names.insert(line);
  return names;
}

/// Only names that this program could have written: nothing outside the folder is ever removed.
bool is_inside(const std::string& file) {
  return !file.empty() && file[0] != '/' && file.find("..") == std::string::npos;
}

void add_sources(Files& files, const fs::path& from, const std::string& to) {
  for (const auto& entry : fs::recursive_directory_iterator(from)) {
    const std::string extension = entry.path().extension();
    const bool source = extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cmake" ||
                        entry.path().filename() == "CMakeLists.txt";
    if (entry.is_regular_file() && source)
      files[to + "/" + fs::relative(entry.path(), from).generic_string()] = read_text(entry.path());
  }
}

}  // namespace

void write_file(const fs::path& file, const std::string& text) {
  if (std::ifstream old(file, std::ios::binary); old) {
    std::ostringstream now;
    now << old.rdbuf();
    if (now.str() == text) return;  // the time stamp stays, so that nothing is built again
  }
  fs::create_directories(file.parent_path());
  const fs::path temporary = file.string() + ".new";
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) {
      fs::remove(temporary);
      throw Failure(Exit::usage, "cannot write " + file.string() + "; is the disk full or the folder read-only?");
    }
  }
  fs::rename(temporary, file);
}

Files emit_project(const plan::Plan& plan, const ProgramTexts& texts, const SourceTree& tree, Style style,
                   Probes probes) {
  const bool cuda = plan.spec.target.kind == spec::TargetKind::cuda;
  const std::string extension = cuda ? ".cu" : ".cpp";
  const std::vector<KernelSource> sources = kernel_sources(plan, tree, style);
  Files files;
  for (const KernelSource& source : sources) files["kernels/" + source.name + extension] = source.text;
  files["kernels.h"] = kernels_header(plan, sources);
  files["step.h"] = print_step_header(plan);
  const StepSources step = print_step(plan, probes);
  files["step" + extension] = step.step;
  files[kPiecesFile] = step.pieces;
  files["program.cpp"] = print_program(plan);
  files["texts.S"] = print_texts();
  for (auto& [name, text] : text_files(texts)) files[name] = text;
  files["CMakeLists.txt"] = print_cmake(plan);
  return files;
}

void make_project_folder(const fs::path& folder) {
  if (fs::exists(folder) && !fs::is_directory(folder))
    throw Failure(Exit::usage, folder.string() + " is not a folder; name another one with -o");
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw Failure(Exit::usage, "cannot make " + folder.string() + ": " + error.message());
  if (fs::exists(folder / kManifest)) return;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().filename() != kLockFile)
      throw Failure(Exit::usage,
                    folder.string() + " holds files that llmc did not write; name an empty or a new folder");
}

namespace {

/// What a killed llmc was writing.
void remove_unfinished(const fs::path& folder) {
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing))
    if (entry.path().extension() == ".new" && entry.is_regular_file()) fs::remove(entry.path(), missing);
}

}  // namespace

void write_project(const Files& files, const fs::path& folder, const SourceTree& tree, bool bundle) {
  make_project_folder(folder);
  for (const fs::path& place : {folder, folder / "kernels"}) remove_unfinished(place);
  Files all = files;
  if (bundle) {
    add_sources(all, tree.runtime, "runtime");
    add_sources(all, tree.templates, "templates");
  }
  std::string list;
  for (const auto& [name, text] : all) list += name + '\n';
  for (const std::string& name : earlier_files(folder))
    if (!all.count(name) && is_inside(name)) fs::remove(folder / name);
  write_file(folder / kManifest, list);
  for (const auto& [name, text] : all) write_file(folder / name, text);
}

}  // namespace llmc::emit
