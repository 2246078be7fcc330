// The emitted project: every file of it as text, and writing them to a folder.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "compiler/emit/program_printer.h"
#include "compiler/emit/specialiser/specialiser.h"
#include "compiler/emit/step_printer.h"
#include "compiler/plan/plan.h"

namespace llmc::emit {

enum class Style { specialised, include };

/// Where llmc finds its templates and the runtime's sources.
struct SourceTree {
  std::filesystem::path templates, runtime;
};

/// Path inside the project -> text. The same plan gives the same bytes.
using Files = std::map<std::string, std::string>;

/// kernels/*, kernels.h, step.h, step.cpp|cu, program.cpp, texts.S, plan.json, plan.txt, spec.yaml, config.json,
/// CMakeLists.txt.
Files emit_project(const plan::Plan& plan, const ProgramTexts& texts, const SourceTree& tree, Style style,
                   Probes probes = Probes::none);

/// Writes by rename, only where the text differs. Throws Failure(usage).
void write_file(const std::filesystem::path& file, const std::string& text);

/// What the specialiser gets for one kernel of the plan.
SpecialiseInput specialise_input(const plan::Plan& plan, const plan::Kernel& kernel, const SourceTree& tree);

/// In a project's folder while an llmc works there (see compiler/build/lock.h).
inline constexpr char kLockFile[] = ".llmc-lock";

/// Makes the folder of a project. Throws Failure(usage) where it cannot be, or holds other things and no .llmc-files.
void make_project_folder(const std::filesystem::path& folder);

/// Writes `files` under `folder`, each by rename, only those that differ; removes files of an earlier emission that are
/// not among them (the folder's list is kept in .llmc-files). With `bundle`, copies the runtime's sources to
/// folder/runtime and the templates to folder/templates, so that the project builds without llmc.
/// Throws Failure(usage) for a folder that holds other things and no .llmc-files.
void write_project(const Files& files, const std::filesystem::path& folder, const SourceTree& tree, bool bundle);

}  // namespace llmc::emit
