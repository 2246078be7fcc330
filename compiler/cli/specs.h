// Specs and plans as commands take them: files and overrides, phases, notes, output folders.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/build/toolchain.h"
#include "compiler/emit/project.h"
#include "compiler/plan/plan.h"
#include "compiler/spec/load.h"
#include "error.h"

namespace llmc::cli {

/// A spec file and the key.path=value arguments after it.
struct SpecArguments {
  std::string file;
  std::vector<std::string> overrides;
  std::optional<std::string> piped = {};  // text of the pipe that `file` is; nothing: not read yet, or no pipe
};

/// Thrown if a spec does not load. what() holds every diagnostic, rendered, and is printed as it is.
class InvalidSpec : public Failure {
 public:
  explicit InvalidSpec(const std::string& diagnostics) : Failure(Exit::spec, diagnostics) {}
};

inline constexpr double kMostPrice = 1e6;  // of a device-hour

/// Reads the spec or its errors. Suggestions in errors are values that llmc can plan. The override phase=N selects a
/// phase.
spec::LoadResult read_spec(const SpecArguments& arguments);

/// Removes the word phase=N, and returns N; empty: there is none.
std::string take_phase(std::vector<std::string>& overrides);

/// Throws Failure(usage) for a phase=N that a spec with this number of phases does not have.
[[noreturn]] void refuse_phase(const std::string& selected, const std::string& file, std::size_t phases);

/// Makes a target.device that is a file relative to the current folder. `directory`: the spec's.
spec::Spec from_here(spec::Spec spec, const std::filesystem::path& directory);

/// Loads a spec; prints its notes if `tell`. Of a spec with phases that which the override phase=N selects. Throws
/// InvalidSpec, and Failure(usage) if the spec has phases and none is selected.
spec::Resolved load_spec(const SpecArguments& arguments, bool tell = true);

/// Same, for a command that takes all phases: one spec for each, or the one selected.
std::vector<spec::Resolved> load_phases(const SpecArguments& arguments, bool tell = true);

/// Returns the one spec. Throws Failure(usage), which says how to select one, if there are several.
spec::Resolved only(std::vector<spec::Resolved> phases, const SpecArguments& arguments);

/// Throws Failure(usage) if a spec to compile is not a regular file.
void refuse_pipe(const std::string& file);

/// Notes and warnings of a command. Phases of a spec have most of them in common.
class Said {
 public:
  /// Prints the line on standard error, unless it was printed before.
  void once(const std::string& line);

 private:
  std::set<std::string> lines_;
};

/// Says if the vocabularies of model and tokenizer differ. The tokenizer need not be on this machine.
void note_vocabulary(const spec::Resolved& resolved, Said& said);

/// Says if transformers cannot load the model as `llmc checkpoint export` writes it.
void warn_of_export(const spec::Model& model, Said& said);

/// A resolved spec, its plan, and the texts that a trainer contains.
struct Planned {
  spec::Resolved resolved;
  plan::Plan plan;
  emit::ProgramTexts texts;
};

/// Plans as a trainer that is built on this machine: on a CPU, `target.arch: native` is resolved first, because kernels
/// are chosen by it.
Planned plan_spec_here(const SpecArguments& arguments);

/// Plans a loaded spec; if `here`, like plan_spec_here().
Planned plan_loaded(spec::Resolved resolved, bool here);

/// Returns `wish`, or build/<name> under the current directory; build/<name>-run if CMake built something of that name.
std::filesystem::path output_folder(const std::string& wish, const std::string& name);

emit::SourceTree source_tree(const build::Home& home);

}  // namespace llmc::cli
