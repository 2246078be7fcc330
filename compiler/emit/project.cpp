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
#include "files/disk.h"
#include "files/durable_file.h"

namespace llmc::emit {

namespace fs = std::filesystem;

namespace {

constexpr const char* kManifest = ".llmc-files";
constexpr Writer kProjectWriter{Exit::usage, "-o"};

std::string kernels_header(const plan::Plan& plan, const std::vector<KernelSource>& sources) {
  SourceWriter out;
  out.line("// The kernels of run $name$ ($print$).", {{"name", plan.spec.name}, {"print", plan.fingerprint}});
  out.raw("#pragma once\n\n#include \"device/group.h\"\n\nnamespace llmc {\n\n");
  for (const KernelSource& source : sources) out.line("$declaration$", {{"declaration", source.declaration}});
  out.raw("\n}  // namespace llmc\n");
  return out.take();
}

std::set<std::string> earlier_files(const fs::path& folder) {
  std::set<std::string> names;
  std::istringstream list(disk::text(folder / kManifest).value_or(""));
  for (std::string line; std::getline(list, line);) names.insert(line);
  return names;
}

/// Accepts only names that llmc can have written: nothing outside the folder may be removed.
bool is_inside(const std::string& file) {
  return !file.empty() && file[0] != '/' && file.find("..") == std::string::npos;
}

void add_sources(Files& files, const fs::path& from, const std::string& to) {
  for (const fs::path& file : disk::files_below(from, Exit::toolchain)) {
    const std::string extension = file.extension();
    const bool source = extension == ".h" || extension == ".cpp" || extension == ".cu" || extension == ".cmake" ||
                        file.filename() == "CMakeLists.txt";
    if (source) files[to + "/" + file.lexically_relative(from).generic_string()] = read_text(file);
  }
}

}  // namespace

void write_file(const fs::path& file, const std::string& text) {
  if (disk::text(file, text.size()) == text) return;  // keeps the time stamp, so that nothing is rebuilt
  make_directories(file.parent_path(), kProjectWriter);
  const fs::path temporary = file.string() + ".new";
  disk::remove(temporary, Exit::usage);  // a link there would be written through
  {
    std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
    out << text;
    out.close();
    if (!out) {
      disk::remove(temporary, Exit::usage);
      throw Failure(Exit::usage,
                    "cannot write " + file.string() + ". Check whether the disk is full or the folder read-only");
    }
  }
  disk::rename(temporary, file, Exit::usage);
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
  files["texts.S"] = print_texts(plan);
  for (auto& [name, text] : text_files(plan, texts)) files[name] = text;
  files["CMakeLists.txt"] = print_cmake(plan);
  return files;
}

void make_project_folder(const fs::path& folder) {
  if (disk::exists(folder, Exit::usage) && !disk::is_folder(folder, Exit::usage))
    throw Failure(Exit::usage, folder.string() + " is not a folder. Name another one");
  make_directories(folder, kProjectWriter);
  if (disk::exists(folder / kManifest, Exit::usage)) return;
  for (const fs::path& entry : disk::entries(folder, Exit::usage))
    if (entry.filename() != kLockFile)
      throw Failure(Exit::usage, folder.string() + " has files that llmc did not write. Name an empty or a new folder");
}

namespace {

/// Removes files that a killed llmc left half written.
void remove_unfinished(const fs::path& folder) {
  std::error_code ignored;
  for (const fs::path& file : disk::readable_entries(folder))
    if (file.extension() == ".new" && fs::is_regular_file(file, ignored)) fs::remove(file, ignored);
}

/// Nothing is written or removed through a link below the folder, which may be one itself.
void refuse_linked_folders(const fs::path& folder, const std::set<std::string>& names) {
  std::set<fs::path> checked = {""};
  for (const std::string& name : names)
    for (fs::path below = fs::path(name).parent_path(); checked.insert(below).second; below = below.parent_path())
      refuse_link(folder / below, kProjectWriter);
}

}  // namespace

void write_project(const Files& files, const fs::path& folder, const SourceTree& tree, bool bundle) {
  make_project_folder(folder);
  Files all = files;
  if (bundle) {
    add_sources(all, tree.runtime, "runtime");
    add_sources(all, tree.templates, "templates");
  }
  std::set<std::string> names = earlier_files(folder);
  std::string list;
  for (const auto& [name, text] : all) {
    names.insert(name);
    list += name + '\n';
  }
  std::erase_if(names, [](const std::string& name) { return !is_inside(name); });
  refuse_linked_folders(folder, names);
  for (const fs::path& place : {folder, folder / "kernels"}) remove_unfinished(place);
  for (const std::string& name : names)
    if (!all.count(name)) disk::remove(folder / name, Exit::usage);
  write_file(folder / kManifest, list);
  for (const auto& [name, text] : all) write_file(folder / name, text);
}

}  // namespace llmc::emit
