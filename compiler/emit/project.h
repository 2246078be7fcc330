// Emits the files of a project as text, and writes them to a folder.
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

/// Folders of the templates and of the runtime's sources.
struct SourceTree {
  std::filesystem::path templates, runtime;
};

/// Path inside the project -> text. Equal plans give equal bytes.
using Files = std::map<std::string, std::string>;

/// Emits kernels/*, kernels.h, step.h, step.cpp|cu, program.cpp, texts.S, plan.json, plan.txt, spec.yaml, config.json
/// and CMakeLists.txt.
Files emit_project(const plan::Plan& plan, const ProgramTexts& texts, const SourceTree& tree, Style style,
                   Probes probes = Probes::none);

/// Writes by rename, only if the text differs. Throws Failure(usage).
void write_file(const std::filesystem::path& file, const std::string& text);

/// Returns the specialiser's input for one kernel of the plan.
SpecialiseInput specialise_input(const plan::Plan& plan, const plan::Kernel& kernel, const SourceTree& tree);

/// Lock file in a project's folder while an llmc writes there (see compiler/build/project_lock.h).
inline constexpr char kLockFile[] = ".llmc-lock";

/// Creates the folder of a project. Throws Failure(usage) if that fails, or if the folder holds other files and no
/// .llmc-files.
void make_project_folder(const std::filesystem::path& folder);

/// Writes the files that differ under `folder`, each by rename. Removes files of an earlier emission that are not in
/// `files`, by the folder's list .llmc-files. With `bundle`, copies the runtime's sources to folder/runtime and the
/// templates to folder/templates, so that the project builds without llmc. Throws Failure(usage) if the folder holds
/// other files and no .llmc-files.
void write_project(const Files& files, const std::filesystem::path& folder, const SourceTree& tree, bool bundle);

}  // namespace llmc::emit
